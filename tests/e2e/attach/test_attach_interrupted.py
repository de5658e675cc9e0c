"""devtrace attach and detach that get signals or are refused system calls, and targets that are stopped meanwhile: the target runs on as it was."""

import mmap
import os
import re
import signal
import struct
import subprocess
import time

import pytest
from c_programs import DRIVER, RUNTIME, build
from conftest import DEVTRACE, environment
from running import command, wait_for

# One thread, which is the one that is borrowed. It says by a shared page how often it has come round.
TARGET = r"""
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <ucontext.h>
#include <time.h>
int cudaMalloc(void**, size_t);
static volatile long* page;  // rounds, whether to end, what was wrong, three blocks of 64 KiB that hold 55
static sigset_t mask;
static void wrong(long what) { page[2] = what; }
static void spin(void) {
  double in[8] = {1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5}, out[8] = {0};
  long a = 11, b = 22;
  __asm__ volatile(
      "movupd (%[in]), %%xmm6\n movupd 16(%[in]), %%xmm7\n movupd 32(%[in]), %%xmm14\n movupd 48(%[in]), %%xmm15\n mov $300000, %%rcx\n"
      "1: inc %[a]\n dec %[b]\n push %%rcx\n pop %%rcx\n movq %[a], -120(%%rsp)\n cmpq %[a], -120(%%rsp)\n jne 2f\n dec %%rcx\n jnz 1b\n 2:"
      "movupd %%xmm6, (%[out])\n movupd %%xmm7, 16(%[out])\n movupd %%xmm14, 32(%[out])\n movupd %%xmm15, 48(%[out])\n"
      : [a] "+r"(a), [b] "+r"(b) : [in] "r"(in), [out] "r"(out) : "rcx", "xmm6", "xmm7", "xmm14", "xmm15", "memory", "cc");
  if (memcmp(in, out, sizeof in) || a != 300011 || b != -299978) wrong(1);
}
static void sleeps(void) {
  struct timespec time = {0, 3000000}, begin, end;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  if (nanosleep(&time, NULL)) wrong(2);
  clock_gettime(CLOCK_MONOTONIC, &end);
  if ((end.tv_sec - begin.tv_sec) * 1000000000L + end.tv_nsec - begin.tv_nsec < 3000000) wrong(3);
}
static void polls(void) {
  if (poll(NULL, 0, 3) != 0) wrong(4);
}
static void polls_with_a_mask(void) {
  struct timespec time = {0, 3000000};
  sigset_t none;
  sigemptyset(&none);
  if (ppoll(NULL, 0, &time, &none) != 0) wrong(5);
}
// On a stack of 2 KiB most of the time.
static ucontext_t *contexts;
static struct { char below[4096], stack[2048]; } small;
static void in_coroutine(void) {
  for (;;) {
    struct timespec time = {0, 3000000};
    nanosleep(&time, NULL);
    swapcontext(contexts, contexts + 1);
  }
}
static void runs_coroutines(void) {
  static int once;
  if (!once++) {
    sleeps();  // the loader needs more room than that to look a function up
    memset(small.below, 55, sizeof small.below);
    contexts = malloc(2 * sizeof *contexts);
    getcontext(contexts);
    contexts->uc_stack.ss_sp = small.stack;
    contexts->uc_stack.ss_size = sizeof small.stack;
    makecontext(contexts, in_coroutine, 0);
  }
  swapcontext(contexts + 1, contexts);
  for (int i = 0; i < sizeof small.below; ++i)
    if (small.below[i] != 55) wrong(10);
  usleep(200);
}
static void reads(void) {
  static int ends[2], once;
  char byte;
  if (!once++) {
    pipe(ends);
    if (fork() == 0) {
      prctl(1, SIGKILL);
      for (;;) { usleep(3000); if (write(ends[1], "x", 1) != 1) _exit(0); }
    }
    close(ends[1]);
  }
  if (read(ends[0], &byte, 1) != 1 || byte != 'x') wrong(6);
}
static void forks(void) {
  int status;
  pid_t child = fork();
  if (child == 0) _exit(7);
  if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 7) wrong(11);
}
static void fill(int at, char* place) { page[at] = (long)memset(place, 55, 65536); }
int main(int argc, char** argv) {
  void (*const ways[])(void) = {spin, sleeps, polls, polls_with_a_mask, reads, runs_coroutines, forks};
  static char data[65536];
  void* device;
  stack_t stack = {malloc(65536), 0, 65536}, now_stack;
  sigset_t now;
  sigemptyset(&mask);
  sigaddset(&mask, SIGUSR2);
  sigprocmask(SIG_BLOCK, &mask, NULL);
  sigprocmask(SIG_BLOCK, NULL, &mask);
  sigaltstack(&stack, NULL);
  page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, open(argv[2], O_RDWR), 0);
  fill(3, data);
  fill(4, malloc(65536));
  fill(5, mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  cudaMalloc(&device, 4096);
  while (!page[1]) {
    errno = 77;
    ways[atoi(argv[1])]();
    if (errno != 77) wrong(7);
    sigprocmask(SIG_BLOCK, NULL, &now);
    if (memcmp(&now, &mask, 8)) wrong(8);
    sigaltstack(NULL, &now_stack);
    if (now_stack.ss_sp != stack.ss_sp || now_stack.ss_flags) wrong(9);
    ++page[0];
  }
  return page[2] != 0;
}
"""

# In front of the C library of `devtrace attach`: ends it before one of its calls that touch the target.
KILLER = r"""
#include <sys/ptrace.h>
#include <sys/uio.h>
static int calls, ran;
static void count(void) {
  const char* at = getenv("KILLED_AT");
  if (at && ++calls == atoi(at)) kill(getpid(), SIGKILL);
}
long ptrace(enum __ptrace_request request, ...) {
  static long (*next)(int, long, long, long);
  __builtin_va_list list;
  __builtin_va_start(list, request);
  long pid = __builtin_va_arg(list, long), address = __builtin_va_arg(list, long), data = __builtin_va_arg(list, long);
  if (!next) next = dlsym(RTLD_NEXT, "ptrace");
  count();
  ran = request == PTRACE_SYSCALL || request == PTRACE_INTERRUPT || request == PTRACE_CONT || request == PTRACE_SINGLESTEP;
  return next(request, (int)pid, address, data);
}
ssize_t process_vm_writev(pid_t pid, const struct iovec* here, unsigned long n, const struct iovec* there, unsigned long m, unsigned long flags) {
  static ssize_t (*next)(pid_t, const struct iovec*, unsigned long, const struct iovec*, unsigned long, unsigned long);
  if (!next) next = dlsym(RTLD_NEXT, "process_vm_writev");
  count();
  return next(pid, here, n, there, m, flags);
}
pid_t waitpid(pid_t pid, int* status, int options) {
  static pid_t (*next)(pid_t, int*, int);
  if (!next) next = dlsym(RTLD_NEXT, "waitpid");
  if (ran) count();  // it has just been let run: once, as nobody knows how often it is looked at
  ran = 0;
  return next(pid, status, options);
}
"""

WAYS = ["spin", "sleep", "poll", "poll with a mask", "read", "coroutines", "fork"]
TIMES = int(os.environ.get("DEVTRACE_ATTACH_TIMES", 0))  # make attach-soak: 200
SIGNALS = [getattr(signal, "SIG" + name) for name in "INT TERM HUP QUIT KILL ALRM PIPE TSTP STOP USR1 SEGV".split()]


class Target:
    """The program, at work in one way."""

    def __init__(self, folder, way):
        self.stopped = way == "stopped"
        program = build(folder, "target", TARGET, RUNTIME, DRIVER, "-Wl,-z,now,-z,relro")
        path = folder / "page"
        path.write_bytes(bytes(4096))
        self.page = mmap.mmap(os.open(path, os.O_RDWR), 4096)
        launch = [DEVTRACE, "rehearse", "--gpus", 2, "--no-trace", "--", program, WAYS.index("sleep" if self.stopped else way), path]
        self.process = subprocess.Popen([str(part) for part in launch], cwd=folder, env=environment(None))
        wait_for(lambda: self.word(0) > 0)
        self.pid = int(open(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read().split()[0])

    def word(self, index) -> int:
        return struct.unpack_from("q", self.page, 8 * index)[0]

    def runs_on(self) -> None:
        before = self.word(0)
        wait_for(lambda: self.word(0) > before + 5 or self.process.poll() is not None)
        assert self.process.poll() is None, f"the target ended with {self.process.returncode}"
        assert self.word(2) == 0, f"check {self.word(2)} of the target failed"

    def is_as(self, before: dict, *when) -> None:
        """Once the thread that was brought into it has ended."""
        for _ in range(200):
            if not (found := differing(before, left(self))):
                return
            time.sleep(0.05)
        raise AssertionError(f"{when}: {found}")

    def end(self) -> None:
        struct.pack_into("q", self.page, 8, 1)
        assert self.process.wait(20) == 0

    def kill(self) -> None:
        for pid in (self.pid, self.process.pid):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()


@pytest.fixture
def target(tmp_path, request):
    started = Target(tmp_path, request.param)
    yield started
    started.kill()


# Of smaps: the place, the permissions, the file, and how much of it is no longer as in the file.
MAPPING = re.compile(r"^([0-9a-f]+-[0-9a-f]+) (\S+) \S+ \S+ \d+ *(.*)\n(?:\w+:.*\n)*?Anonymous: +(\d+) kB", re.MULTILINE)


def status_of(pid) -> dict[str, str]:
    return dict(line.split(":\t", 1) for line in open(f"/proc/{pid}/status").read().splitlines())


def left(target: Target) -> dict:
    """What attaching and detaching has to leave as it was. What the C library and the loader keep for themselves changes with each thread and object."""
    proc, pages, texts, own = f"/proc/{target.pid}", set(), {}, {}
    with open(f"{proc}/mem", "rb", 0) as memory:
        for place, permissions, name, changed in MAPPING.findall(open(f"{proc}/smaps").read()):
            begin, end = (int(each, 16) for each in place.split("-"))
            if end - begin < 1 << 24 and "[" not in name:
                pages |= {(page, permissions, name) for page in range(begin, end, 4096)}
            c_library = re.search(r"/(libc|ld-linux[^/]*)\.so\.", name)
            if not name.startswith("/") or "libdevtrace" in name or ("w" in permissions and (c_library or name.endswith(("/target", "/page")))):
                continue
            memory.seek(begin)
            texts[place, permissions, name] = memory.read(end - begin) if changed != "0" else "as in the file"
        for word in (3, 4, 5):
            memory.seek(target.word(word))
            own[word] = memory.read(65536) == bytes([55]) * 65536
    descriptors = {each: os.readlink(f"{proc}/fd/{each}") for each in os.listdir(f"{proc}/fd")}
    kept = {key: value for key, value in status_of(target.pid).items() if key in ("Umask", "TracerPid", "Threads", "SigBlk", "SigIgn", "SigCgt", "SigPnd", "ShdPnd")}
    return {"pages": pages, "texts": texts, "own": own, "descriptors": descriptors, "tasks": os.listdir(f"{proc}/task"), "cwd": os.readlink(f"{proc}/cwd"), **kept}


def differing(before: dict, now: dict) -> dict:
    """Of pages only those that are gone: the C library keeps a thread's stack for the next one."""
    gone = {"pages": before["pages"] - now["pages"]} if not before["pages"] <= now["pages"] else {}
    return gone | {key: (before[key], now[key]) for key in before if key != "pages" and before[key] != now[key]}


@pytest.mark.parametrize("target", WAYS, indirect=True)
def test_killed_at_each_of_its_calls(tmp_path, target):
    killer = build(tmp_path, "libkiller.so", KILLER)
    for number in range(1, 200):
        done = command("attach", "--no-wait", target.pid, env=environment(None, {"LD_PRELOAD": str(killer), "KILLED_AT": str(number)}))
        target.runs_on()
        if done.returncode >= 0:
            break
    assert done.returncode == 0, done.stderr
    assert number > 20, "it was never in the midst of its work"
    assert command("detach", target.pid).returncode == 0
    target.end()


@pytest.mark.parametrize("target", ["poll", "spin", "sleep", "fork", "stopped"], indirect=True)
def test_a_signal_at_each_millisecond(target):
    """To the command, and to a target that is stopped at the same moment and stays so."""
    tries = TIMES // 2 or 5
    for action in (["attach", "--no-wait"], ["detach"]):
        assert command(*action, target.pid).returncode == 0
    target.runs_on()
    before = left(target)
    for number in range(tries):
        milliseconds, sent = (number * 37 + 11) % 60, SIGNALS[number % len(SIGNALS)]
        for action in (["attach", "--no-wait"], ["detach"]):
            process = subprocess.Popen([str(DEVTRACE), *action, str(target.pid)], env=environment(None), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            time.sleep(milliseconds / 1000)
            process.send_signal(sent)
            if target.stopped:
                os.kill(target.pid, signal.SIGSTOP)
                time.sleep(0.02)
                process.send_signal(signal.SIGCONT)
                wait_for(lambda: status_of(target.pid)["State"][0] == "T")  # the command has let it go by then, or refused it
                os.kill(target.pid, signal.SIGCONT)
            elif sent in (signal.SIGSTOP, signal.SIGTSTP):
                time.sleep(0.02)
                process.send_signal(signal.SIGCONT)
            process.wait(60)
            target.runs_on()
        done = command("detach", target.pid)
        assert done.returncode in (0, 7), done.stderr
        target.runs_on()
        target.is_as(before, milliseconds, sent)
    target.end()
