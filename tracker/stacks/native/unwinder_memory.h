// How libunwind finds out whether memory can be read, before it goes on in a stack that no table describes.
#pragma once

// Called in the place of the C library's (interpose/interpose.mk renames them in libunwind's object). libunwind itself
// would open a pipe, keep it for good, and read, write and close whatever the program has under these numbers later on.
extern "C" {
int unwinder_pipe2(int* ends, int flags);
long unwinder_read(int descriptor, void* buffer, unsigned long bytes);
int unwinder_close(int descriptor);
// Of `write` only: 1 when there is something to be read at `address`, else -1 and EFAULT.
long unwinder_syscall(long number, int descriptor, const void* address, unsigned long bytes);
}
