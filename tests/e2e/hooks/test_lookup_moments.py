"""Look-ups when nothing may be taken for granted: after a fork, out of a malloc, out of dl_iterate_phdr, of many threads, before any
constructor."""

import pytest
from c_programs import OWN_WALK, ROWS, both, build, cuda, same  # noqa: F401 (a fixture)

# ---- fork


FORKS = r"""
#include <link.h>
static volatile int stop;
static int show(struct dl_phdr_info* info, size_t size, void* data) { return 0; }
// As whoever unwinds a stack does; the child inherits the lock for ever.
static void* iterate(void* unused) {
  while (!stop) dl_iterate_phdr(show, 0);
  return 0;
}
static void* library;
static void* look(void* unused) {
  while (!stop) {
    dlsym(library, "cudaMalloc"); dlsym(RTLD_DEFAULT, "cudaFree"); dlsym(library, "cudaLaunchKernel"); dlsym(library, "missing");
    dlvsym(library, "cudaMemcpy", "nonsense"); dlerror();
  }
  return 0;
}
int main() {
  library = dlopen("libcudart.so.13", RTLD_LAZY);
  pthread_t threads[3];
  for (int i = 0; i < 3; ++i) pthread_create(&threads[i], 0, i ? look : iterate, 0);
  int good = 0;
  for (int i = 0; i < 150; ++i) {
    pid_t child = fork();
    if (!child) {
      alarm(20);
      void* p;
      int (*allocate)(void**, size_t) = dlsym(library, "cudaMallocAsync");
      int (*set)(int) = dlsym(library, "cudaSetDevice");
      _exit(allocate(&p, 1) == 77 && set(1) == 77 && !dlsym(library, "missing") && dlerror() ? 3 : 4);
    }
    int status;
    waitpid(child, &status, 0);
    good += status == 3 << 8;
  }
  stop = 1;
  for (int i = 0; i < 3; ++i) pthread_join(threads[i], 0);
  char* words[] = {"/bin/echo", "exec'd", 0};
  printf("%d\n", good);
  fflush(stdout);
  execv(words[0], words);
}
"""


def test_children_of_a_fork_look_up_while_other_threads_did(tmp_path, cuda):
    program = build(tmp_path, "program", FORKS, f"-Wl,-rpath,{cuda.parent}")
    assert same(*both(tmp_path, [program], timeout=120)) == "150\nexec'd\n"


# ---- out of the C library's own functions, and early


MALLOC = r"""
static __thread int inside;
int armed = ARMED;
void* __libc_malloc(size_t);
void* malloc(size_t bytes) {
  if (!inside++ && armed) {
    void* library = dlopen("libcudart.so.13", RTLD_LAZY | RTLD_NOLOAD);
    dlsym(RTLD_NEXT, "malloc"); dlsym(library ? library : RTLD_DEFAULT, "cudaMalloc"); dlsym(RTLD_DEFAULT, "missing"); dlerror();
  }
  --inside;
  return __libc_malloc(bytes);
}
"""


@pytest.mark.parametrize("from_the_start", [0, 1])
def test_a_malloc_that_looks_up(tmp_path, cuda, from_the_start):
    """dlsym allocates; an allocator that looks up calls it again from inside, the first time of all too."""
    allocator = build(tmp_path, "liballocator.so", MALLOC.replace("ARMED", str(from_the_start)))
    program = build(tmp_path, "program", r"""
extern int armed __attribute__((weak));
int main() {
  alarm(20);
  void* library = dlopen("libcudart.so.13", RTLD_LAZY), *p;
  const char* names[] = {"cudaMallocManaged", "missing", "cudaMalloc", "cudaHostAlloc"};
  armed = 1;
  for (int i = 0; i < 4; ++i) {
    int (*found)(void**, size_t) = dlsym(library, names[i]);
    printf("%d\n", found ? found(&p, 1) : 0);
  }
}""", f"-Wl,-rpath,{cuda.parent}")  # fmt: skip
    for before, after in (([allocator], []), ([], [allocator])):
        assert same(*both(tmp_path, [program], before, after)) == "77\n0\n77\n77\n"


# A program's own dl_iterate_phdr, which finds the next one by dlsym, and counts.
def test_a_dl_iterate_phdr_that_looks_up(tmp_path, cuda):
    """devtrace goes by the program's, too."""
    program = build(tmp_path, "program", OWN_WALK + r"""
int main() {
  int (*found)(void**, size_t) = dlsym(dlopen("libcudart.so.13", RTLD_LAZY), "cudaMalloc");
  void* p;
  printf("%d\n", found(&p, 1));
}""", "-rdynamic", f"-Wl,-rpath,{cuda.parent}")  # fmt: skip
    assert same(*both(tmp_path, [program])) == "77\n"


def test_many_threads_at_once(tmp_path, cuda):
    names = [name for library, name in ROWS if library == "libcudart.so"]
    program = build(tmp_path, "program", f"const char* names[] = {{{', '.join(f'{chr(34)}{name}{chr(34)}' for name in names)}}};" + r"""
enum { kNames = sizeof names / sizeof *names, kThreads = 32 };
static void *library, *found[kThreads][kNames];
static pthread_barrier_t gate;
static void* look(void* number) {
  void** mine = found[(long)number];
  pthread_barrier_wait(&gate);
  for (int times = 0; times < 200; ++times)
    for (int i = 0; i < kNames; ++i) {
      int which = (i + (long)number % 4) % kNames;
      void* now = dlsym(library, names[which]);
      if (mine[which] && mine[which] != now) printf("%s was something else before\n", names[which]);
      mine[which] = now;
    }
  return 0;
}
int main() {
  library = dlopen("libcudart.so.13", RTLD_LAZY);
  pthread_t threads[kThreads];
  pthread_barrier_init(&gate, 0, kThreads);
  for (long i = 0; i < kThreads; ++i) pthread_create(&threads[i], 0, look, (void*)i);
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], 0);
  for (int i = 1; i < kThreads; ++i)
    if (memcmp(found[0], found[i], sizeof found[0])) printf("thread %d saw something else\n", i);
  for (int i = 0; i < kNames; ++i) fprintf(stderr, "%s\n", whose(found[0][i]));
  printf("done\n");
}""", f"-Wl,-rpath,{cuda.parent}")  # fmt: skip
    bare, traced = both(tmp_path, [program])
    assert bare.out == traced.out == "done\n" and traced.code == 0
    assert traced.err.split() == [f"libdevtrace.so:{name}" for name in names]


def test_before_any_constructor_has_run(tmp_path, cuda):
    """The program's preinit_array comes before the C library's own constructors, a dependency's constructor before devtrace's."""
    early = r"""
static int (*found)(void**, size_t);
static void look() { found = dlsym(dlopen("libcudart.so.13", RTLD_LAZY), "cudaMalloc"); dlsym(RTLD_NEXT, "cudaFree"); dlsym(RTLD_DEFAULT, "missing"); }
"""
    dependency = build(tmp_path, "libdependency.so", early + "__attribute__((constructor)) static void start() { look(); } int dependency() { void* p; return found(&p, 1); }", cuda)
    program = build(
        tmp_path, "program",
        early + "__attribute__((section(\".preinit_array\"), used)) static void (*start)() = look;\n"
        "int dependency(); int main() { void* p; printf(\"%d %d\\n\", found(&p, 1), dependency()); fprintf(stderr, \"%s\\n\", whose(found)); }",
        dependency, cuda,
    )  # fmt: skip
    bare, traced = both(tmp_path, [program])
    assert bare.out == traced.out == "77 77\n" and traced.err == "libdevtrace.so:cudaMalloc\n", traced.err
