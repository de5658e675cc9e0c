// What libstdc++ asks before it counts a reference, since glibc 2.32: it may be another thread's, too.
extern "C" char __libc_single_threaded;
char __libc_single_threaded = 0;
