"""Findings in places where a C program has little room: small stacks, handlers that do not come back, threads that are cancelled."""

import pytest
from c_programs import RUNTIME, WITH_CUDA, build
from conftest import BUILD, DEVTRACE, environment, execute, only

# A copy that states the wrong end, on a thread, in a handler on a stack of its own, and in a coroutine.
SMALL = r"""
#include <sys/mman.h>
#include <ucontext.h>
int cudaMemcpy(void*, const void*, size_t, int);
int cudaMalloc(void**, size_t);
static void *a, *b;
static void mistake(void) { cudaMemcpy(a, b, 100, 1); }
static void* body(void* unused) { mistake(); return 0; }
static void handler(int signal) { mistake(); }
static ucontext_t back, there;
static void coroutine(void) { mistake(); swapcontext(&there, &back); }
int main(int count, char** arguments) {
  cudaMalloc(&a, 100);
  cudaMalloc(&b, 100);
  long size = atol(arguments[2]) * 1024;
  char* stack = mmap(0, size + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  mprotect(stack, 4096, PROT_NONE);
  stack += 4096;
  if (!strcmp(arguments[1], "thread")) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, size);
    pthread_t thread;
    if (pthread_create(&thread, &attributes, body, 0)) return 1;
    pthread_join(thread, 0);
  } else if (!strcmp(arguments[1], "handler")) {
    stack_t alternative = {.ss_sp = stack, .ss_size = size};
    sigaltstack(&alternative, 0);
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &action, 0);
    raise(SIGUSR1);
  } else {
    getcontext(&there);
    there.uc_stack.ss_sp = stack;
    there.uc_stack.ss_size = size;
    makecontext(&there, coroutine, 0);
    swapcontext(&back, &there);
  }
  puts("end");
}
"""

# The program's own write() is where the handler comes from: inside the finding.
JUMP = r"""
#include <setjmp.h>
#include <sys/syscall.h>
int cudaMemcpy(void*, const void*, size_t, int);
int cudaMalloc(void**, size_t);
static sigjmp_buf out;
static volatile int armed;
static void handler(int signal) { siglongjmp(out, 1); }
ssize_t write(int descriptor, const void* bytes, size_t count) {
  if (armed) armed = 0, raise(SIGUSR1);
  return syscall(SYS_write, descriptor, bytes, count);
}
int main() {
  void *a, *b;
  cudaMalloc(&a, 100);
  cudaMalloc(&b, 100);
  signal(SIGUSR1, handler);
  armed = 1;
  if (sigsetjmp(out, 1) == 0) cudaMemcpy(a, b, 100, 1);
  cudaMemcpy(b, a, 100, 2);
  puts("end");
}
"""

# A thread that is to be cancelled, at the first use of CUDA, inside a copy, or at a finding.
CANCELLED = r"""
int cudaMemcpy(void*, const void*, size_t, int);
int cudaMalloc(void**, size_t);
static void *a, *b;
static const char* where;
static void* body(void* unused) {
  int before;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
  pthread_cancel(pthread_self());
  if (!strcmp(where, "finding")) cudaMalloc(&a, 100), cudaMalloc(&b, 100);
  pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &before);
  if (!strcmp(where, "first")) cudaMalloc(&a, 100);
  else cudaMemcpy(a, b, 100, 1);
  pthread_testcancel();
  return 0;
}
int main(int count, char** arguments) {
  where = arguments[1];
  pthread_t thread;
  void* result;
  pthread_create(&thread, 0, body, 0);
  pthread_join(thread, &result);
  puts(result == PTHREAD_CANCELED ? "cancelled" : "returned");
}
"""
# A runtime whose copy may be cancelled, as one that waits.
WAITING = r"""
int cudaMemcpy() { pthread_testcancel(); sleep(9); return 0; }
int cudaMalloc(void** address) { *address = malloc(100); return 0; }
"""


def rehearsed(folder, source):
    return build(folder, "program", source, "-rdynamic", *WITH_CUDA)


# How what the program does is seen: by functions in the place of CUDA's, by CUPTI, or by CUPTI in a library that CUDA itself opens.
WAYS = pytest.mark.parametrize("way", ["interpose", "cupti", "injected"])


def rehearse(program, *arguments, way):
    flags = ["--no-trace"] if way == "injected" else []
    env = {"CUDA_INJECTION64_PATH": str(BUILD / "libdevtrace.so")} if way == "injected" else {}
    options = "backend=cupti" if way == "cupti" else None
    return execute([DEVTRACE, "rehearse", "--gpus", 2, *flags, "--", program, *arguments], program.parent, environment(options, env), 60)


# 16 KiB: what PyTorch's and glibc's own thread-local variables leave of it is too little for a thread.
@WAYS
@pytest.mark.parametrize("where, size", [("thread", 24), ("thread", 40), ("handler", 16), ("coroutine", 16)])
def test_small_stacks(tmp_path, where, size, way):
    if size == 24 and way != "interpose":
        pytest.skip("the stub CUPTI itself needs more, as it records the copy and binds its functions lazily")
    outcome = rehearse(rehearsed(tmp_path, SMALL), where, size, way=way)
    assert (outcome.code, outcome.out) == (0, "end\n"), outcome.err
    finding = only(outcome, "copy-mismatch")
    assert [frame.get("function") for frame in finding["native"]][:2] == ["mistake", {"thread": "body"}.get(where, where)]


@WAYS
def test_a_handler_that_leaves_by_siglongjmp(tmp_path, way):
    outcome = rehearse(rehearsed(tmp_path, JUMP), way=way)
    assert (outcome.code, outcome.out) == (0, "end\n"), outcome.err
    assert [finding["kind"] for finding in outcome.findings] == ["copy-mismatch"] * 2, "the thread is looked at as before"


@pytest.mark.parametrize("where", ["first", "copy"])
def test_a_thread_is_cancelled_as_without(tmp_path, where):
    runtime = build(tmp_path, RUNTIME.name, WAITING)
    program = build(tmp_path, "program", CANCELLED, runtime)
    for library in ({}, {"LD_PRELOAD": str(BUILD / "libdevtrace.so")}):
        outcome = execute([program, where], tmp_path, environment(None, library), 30)
        assert (outcome.code, outcome.out) == (0, "cancelled\n"), outcome.err


@WAYS
def test_a_thread_that_is_cancelled_tells_its_finding_first(tmp_path, way):
    outcome = rehearse(rehearsed(tmp_path, CANCELLED), "finding", way=way)
    assert (outcome.code, outcome.out) == (0, "cancelled\n"), outcome.err
    only(outcome, "copy-mismatch")
