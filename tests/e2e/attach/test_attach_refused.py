"""Where ptrace is refused, by a container, a security module or the process itself, that is said, and nothing is touched."""

import errno
import glob
import os
import subprocess
import sys

import pytest
from c_programs import build
from conftest import DEVTRACE, environment
from forbidden_calls import PROCESS_VM_READV, PROCESS_VM_WRITEV, PTRACE, forbid
from running import Running, command, running  # noqa: F401
from test_attach_programs import C_SERVER, DRIVER, RUNTIME, start

# The libraries of a glibc before 2.34, as Debian 11 has them, with its loader: a folder for tests that need them.
MPROTECT, SWAPOFF = 10, 168  # x86-64
OLD_GLIBC = os.environ.get("DEVTRACE_OLD_GLIBC", "")


def mapped(server: Running) -> list[str]:
    """Of each mapping all but its end, for heap and stack grow."""
    return [line.split("-")[0] + line[25:] for line in open(f"/proc/{server.pid}/maps") if "heap" not in line and "stack" not in line]


# Yama refuses all three, a container's filter of old the first, a kernel without process_vm_readv the others.
@pytest.mark.parametrize(
    "calls", [(PTRACE,), (PTRACE, PROCESS_VM_READV, PROCESS_VM_WRITEV), (PROCESS_VM_READV, PROCESS_VM_WRITEV)], ids=["ptrace", "all", "memory"]
)
def test_a_refusal_of_ptrace_is_one_line_and_changes_nothing(tmp_path, running, calls):  # noqa: F811
    running.append(start(tmp_path, "idle"))
    server = running[0]
    before = mapped(server)
    done = command("attach", server.pid, preexec_fn=forbid(*calls))
    assert done.returncode == 4, done.stderr
    assert done.stderr.count("\n") == 1 and done.stderr.startswith(f"devtrace attach: not allowed to trace process {server.pid}: ")
    assert "ptrace" in done.stderr and "devtrace run" in done.stderr
    assert mapped(server) == before and "TracerPid:\t0" in open(f"/proc/{server.pid}/status").read()
    assert server.ask("steps") == ["0", "0", "0", "0"]
    assert command("attach", "--no-wait", server.pid).returncode == 0
    # Attached to, it is refused as before when it is to be left, and stays watched.
    done = command("detach", server.pid, preexec_fn=forbid(*calls))
    assert done.returncode == 4 and done.stderr.count("\n") == 1, done.stderr
    server.ask("wrong")
    assert len(server.findings) == 1
    assert server.end() == 0


# A server that forbids a system call once it has started: argv[2], with the action argv[3] for it, in all threads or in its main one (argv[4]).
# It starts `devtrace attach` for itself, which runs under the same filter, as in a container.
UNDER_A_FILTER = """
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
static void forbid(unsigned number, unsigned action, int all) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, action), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  struct sock_fprog program = {4, code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, all ? SECCOMP_FILTER_FLAG_TSYNC : 0, &program)) abort();
}
static int devtrace(char* order) {
  char* words[] = {"DEVTRACE", strtok(order, " "), strtok(NULL, " "), strtok(NULL, " \\n"), NULL};
  int status, child = fork();
  if (child == 0) {
    unsetenv("LD_PRELOAD");
    execv(words[0], words);
    _exit(99);
  }
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
"""
KILL, REFUSE = 0x80000000, 0x00050000 | errno.EPERM


def under_a_filter(folder, number, action, all_threads=1) -> Running:
    # Its other thread makes its first calls meanwhile.
    forbids = "usleep(100000); forbid(atoi(argv[2]), strtoul(argv[3], NULL, 0), atoi(argv[4]));"
    orders = 'if (!strncmp(line, "attach", 6) || !strncmp(line, "detach", 6)) printf("answer %d\\n", devtrace(line));'
    source = C_SERVER.replace("fflush(stdout);\n  while", f"{forbids}\n  fflush(stdout);\n  while").replace('if (!strncmp(line, "wrong"', f'{orders}\n    else if (!strncmp(line, "wrong"')
    program = build(folder, "server", UNDER_A_FILTER.replace("DEVTRACE", str(DEVTRACE)) + source, RUNTIME, DRIVER)
    return Running([DEVTRACE, "rehearse", "--gpus", 2, "--no-trace", "--", program, "idle", number, action, all_threads], folder, environment(None))


# The command has no filter, or one too, which is another one.
@pytest.mark.parametrize("own", [None, forbid(SWAPOFF)], ids=["none", "another"])
def test_a_filter_that_kills_is_seen_before_anything_is_touched(tmp_path, running, own):  # noqa: F811
    running.append(under_a_filter(tmp_path, MPROTECT, KILL))
    server = running[0]
    before = mapped(server)
    done = command("attach", "--no-wait", server.pid, preexec_fn=own)
    assert done.returncode == 5 and done.stderr.count("\n") == 1 and "seccomp filter" in done.stderr, done.stderr
    assert mapped(server) == before
    assert server.ask("steps") == ["0", "0", "0", "0"]
    assert server.end() == 0


def test_under_the_same_filter_as_in_a_container_it_is_attached_to(tmp_path, running):  # noqa: F811
    running.append(under_a_filter(tmp_path, SWAPOFF, KILL))
    server = running[0]
    assert command("attach", "--no-wait", server.pid).returncode == 5
    assert server.ask(f"attach --no-wait {server.pid}") == ["0"], server.err
    server.ask("wrong")
    assert server.ask(f"detach {server.pid} ") == ["0"], server.err
    assert server.end() == 0
    assert len(server.findings) == 1
    assert [log.name for log in tmp_path.glob("devtrace-*.jsonl")] == [f"devtrace-{server.pid}.jsonl"], "who tried the calls first left nothing"


def test_a_thread_with_a_filter_of_its_own_is_seen(tmp_path, running):  # noqa: F811
    running.append(under_a_filter(tmp_path, SWAPOFF, KILL, all_threads=0))
    assert running[0].ask(f"attach --no-wait {running[0].pid}") == ["5"]
    assert "not all of its threads" in running[0].err
    assert running[0].end() == 0


# What `strace` shows of threads that are attached to and detached from, but for what the server itself cannot do without (read, write); x86-64.
CALLS = {
    "close": 3, "fstat": 5, "mmap": 9, "mprotect": MPROTECT, "munmap": 11, "rt_sigaction": 13, "rt_sigprocmask": 14, "rt_sigreturn": 15, "mincore": 27,
    "madvise": 28, "nanosleep": 35, "getpid": 39, "exit": 60, "uname": 63, "getcwd": 79, "readlink": 89, "geteuid": 107, "getppid": 110,
    "rt_sigpending": 127, "rt_sigtimedwait": 128, "futex": 202, "openat": 257, "newfstatat": 262, "set_robust_list": 273, "clock_adjtime": 305,
    "process_vm_readv": PROCESS_VM_READV, "getrandom": 318, "rseq": 334, "clone3": 435,
}  # fmt: skip


# The first ends the server itself in fork(), the second as it begins to read.
@pytest.mark.parametrize("action, left_out", [(KILL, {"rt_sigprocmask", "newfstatat"}), (REFUSE, set())], ids=["ends", "fails"])
def test_each_system_call_forbidden_in_turn(tmp_path, running, action, left_out):  # noqa: F811
    answers, changed = {}, []
    for name in [name for name in CALLS if name not in left_out]:
        folder = tmp_path / name
        folder.mkdir()
        running.append(under_a_filter(folder, CALLS[name], action))
        server = running[-1]

        def seen():
            return mapped(server), os.listdir(f"/proc/{server.pid}/fd")  # noqa: B023 (called in this round)

        before = seen()
        answers[name] = server.ask(f"attach --no-wait {server.pid}")[0]
        if answers[name] == "0":
            server.ask("wrong")
            assert server.ask(f"detach {server.pid} ") == ["0"], (name, server.err)
        elif seen() != before:
            changed.append(name)
        assert server.ask("steps") == ["0", "0", "0", "0"], name
        assert server.end() == 0, name
    assert changed == [], answers
    assert {"0", "5"} <= set(answers.values()), answers


ON_ANOTHER_STACK = """
#include <ucontext.h>
int cudaMalloc(void**, size_t);
static void serve(void) {
  printf("ready %d\\n", getpid());
  fflush(stdout);
  getchar();
  printf("ended\\n");
  exit(0);
}
int main(void) {
  static char stack[1 << 16];
  static ucontext_t there;
  void* device;
  cudaMalloc(&device, 4096);
  getcontext(&there);
  there.uc_stack.ss_sp = stack;
  there.uc_stack.ss_size = sizeof stack;
  makecontext(&there, serve, 0);
  return setcontext(&there);
}
"""


def test_a_thread_on_another_stack_alone_is_waited_for_in_vain(tmp_path, running):  # noqa: F811
    program = build(tmp_path, "coroutine", ON_ANOTHER_STACK, RUNTIME, DRIVER)
    running.append(Running([DEVTRACE, "rehearse", "--gpus", 2, "--no-trace", "--", program], tmp_path, environment(None)))
    before = mapped(running[0])
    done = command("attach", "--no-wait", running[0].pid)
    assert done.returncode == 8 and done.stderr.count("\n") == 1 and "no thread" in done.stderr, done.stderr
    assert mapped(running[0]) == before
    assert running[0].end() == 0


# The parent waits until its child, which runs in its memory, has come to an end.
VFORKS = """
#include <sys/syscall.h>
int cudaMalloc(void**, size_t);
int main(void) {
  void* device;
  cudaMalloc(&device, 4096);
  for (int i = 0; i < 8; ++i) {
    pid_t child = vfork();
    if (child == 0) {
      struct timespec time = {0, 500000000};
      syscall(SYS_nanosleep, &time, NULL);
      _exit(7);
    }
    int status;
    if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 7) return 1;
  }
  return 0;
}
"""


def test_a_child_in_its_parents_memory_is_left_alone(tmp_path):
    program = build(tmp_path, "vforks", VFORKS, RUNTIME, DRIVER)
    parent = subprocess.Popen([DEVTRACE, "rehearse", "--gpus", "2", "--no-trace", "--", program], cwd=tmp_path, env=environment(None))
    answers, waiting = set(), None
    while parent.poll() is None:
        below = subprocess.run(["pgrep", "-x", "vforks"], capture_output=True, text=True).stdout.split()
        children = [int(pid) for pid in below if f"PPid:\t{parent.pid}\n" not in status(pid)]
        if children and waiting is None and (5, True) in answers:  # the parent stops for nobody meanwhile, and is not taken for another's
            waiting = command("attach", "--no-wait", next(pid for pid in below if int(pid) not in children))
        elif children:
            done = command("attach", "--no-wait", children[-1])
            answers.add((done.returncode, "vfork" in done.stderr))
    assert parent.wait() == 0
    assert waiting.returncode in (0, 3, 8), waiting.stderr
    assert (5, True) in answers
    assert answers <= {(5, True), (3, False)}, answers  # it had ended


def status(pid: str) -> str:
    try:
        return open(f"/proc/{pid}/status").read()
    except OSError:
        return ""


# Tries to trace each of the threads that it is given, and keeps those; a debugger that looks at one.
TRACER = """
import ctypes, os, sys, time
for thread in sys.argv[1:]:
    assert ctypes.CDLL(None).ptrace(0x4206, int(thread), None, None) == 0
print("traces", flush=True)
sys.stdin.read()
"""
# The main thread is in malloc, nearly always, and the others wait.
IN_MALLOC = (
    ("for (long i = 0; busy", "for (long i = 0; busy = 0, i < 2; ++i) pthread_create(&other, NULL, idle, NULL);\n  for (long i = 0; busy"),
    ("while (fgets(", "struct pollfd in = {0, POLLIN};\n  while (!poll(&in, 1, 0)) for (int i = 0; i < 1000000; ++i) free(malloc(100 + i % 5000));\n  while (fgets("),
)


def test_a_thread_that_cannot_be_traced_is_not_the_process(tmp_path, running):  # noqa: F811
    """The kernel says of a thread that is just ending what it says of what is not allowed."""
    source = C_SERVER
    for old, new in IN_MALLOC:
        assert old in source
        source = source.replace(old, new)
    program = build(tmp_path, "server", "#include <poll.h>\n" + source, RUNTIME, DRIVER)
    running.append(Running([DEVTRACE, "rehearse", "--gpus", 2, "--no-trace", "--", program], tmp_path, environment(None)))
    server = running[0]
    threads = sorted(int(each) for each in os.listdir(f"/proc/{server.pid}/task") if int(each) != server.pid)
    assert len(threads) == 2
    tracer = subprocess.Popen(
        [sys.executable, "-c", TRACER, str(threads[0])], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=os.setpgrp
    )
    try:
        assert tracer.stdout.readline() == "traces\n"
        done = command("attach", "--no-wait", server.pid)
        assert done.returncode == 0, done.stderr
    finally:
        tracer.communicate()
    assert server.end() == 0


@pytest.mark.skipif(not OLD_GLIBC, reason="DEVTRACE_OLD_GLIBC names no folder with a glibc before 2.34")
def test_a_process_with_an_older_glibc(tmp_path, running):  # noqa: F811
    """Its pthread_create is in libpthread, its dlopen in libdl."""
    libraries = [next(iter(glob.glob(f"{OLD_GLIBC}/{name}.so.[0-9]"))) for name in ("libc", "libpthread", "libdl")]
    loader = next(iter(glob.glob(f"{OLD_GLIBC}/ld-linux-x86-64.so.2")))
    program = build(tmp_path, "server", C_SERVER, "-nodefaultlibs", *libraries, loader, "-L" + OLD_GLIBC, RUNTIME, DRIVER)
    asked = subprocess.run(["objdump", "-T", program], capture_output=True, text=True, check=True).stdout
    assert "GLIBC_2.34" not in asked
    path = f"{OLD_GLIBC}:{RUNTIME.parent}"
    running.append(
        Running([DEVTRACE, "rehearse", "--gpus", 2, "--no-trace", "--", loader, "--library-path", path, program], tmp_path, environment(None))
    )
    server = running[0]
    for _ in range(5):
        done = command("attach", "--no-wait", server.pid)
        assert done.returncode == 0, done.stderr
        server.ask("wrong")
        assert command("detach", server.pid).returncode == 0
    assert server.end() == 0
    assert [one["kind"] for one in server.findings] == ["copy-mismatch"]
