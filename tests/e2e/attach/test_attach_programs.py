"""devtrace attach to programs without PyTorch: each CPython of the machine, and C programs."""

import os
import subprocess

import pytest
from c_programs import build
from conftest import BUILD, DEVTRACE, environment
from interpreters import PARAMETERS
from running import Running, command, python_server, running, wait_for  # noqa: F401

RUNTIME = BUILD / "simulate" / "libcudart.so.13"
DRIVER = BUILD / "simulate" / "libcuda.so.1"
CYCLES = int(os.environ.get("DEVTRACE_ATTACH_TIMES", 8))

# ctypes asks for each function when it is called first, as Triton does.
PLAIN_PYTHON = f"""
import ctypes, os, sys, threading, time

early = ctypes.CDLL("{RUNTIME}")
host = ctypes.create_string_buffer(4096)
device = ctypes.c_void_p()
early.cudaMalloc(ctypes.byref(device), 4096)
stop = False


def busy():
    while not stop:
        {{str(number): [number] * 3 for number in range(50)}}
        try:
            raise KeyError("an ordinary one")
        except KeyError:
            pass


def wrong():
    late = ctypes.CDLL("{RUNTIME}")
    own = ctypes.c_void_p()
    late.cudaMalloc(ctypes.byref(own), 4096)
    return late.cudaMemcpy(own, host, 4096, 2)  # HERE


threads = [threading.Thread(target=busy) for _ in range(3)]
[thread.start() for thread in threads]
print("ready", os.getpid(), flush=True)
for line in sys.stdin:
    if line.startswith("end"):
        break
    print("answer", wrong(), flush=True)
stop = True
[thread.join() for thread in threads]
print("ended", flush=True)
"""


@pytest.mark.parametrize("interpreter", PARAMETERS)
def test_each_python(tmp_path, running, interpreter):  # noqa: F811
    running.append(python_server(tmp_path, PLAIN_PYTHON, interpreter))
    server = running[0]
    for _ in range(CYCLES):
        done = command("attach", "--no-wait", server.pid)
        assert done.returncode == 0, done.stderr
        server.ask("wrong")
        done = command("detach", server.pid)
        assert done.returncode == 0, done.stderr
        server.ask("wrong")
    assert server.end() == 0, server.err
    assert [one["kind"] for one in server.findings] == ["copy-mismatch"]
    finding = server.findings[0]
    here = next(number for number, line in enumerate((tmp_path / "program.py").read_text().splitlines(), 1) if "# HERE" in line)
    assert [(frame["function"], frame["line"]) for frame in finding["python"]][0] == ("wrong", here)
    assert [one["created"]["python"][0]["function"] for one in finding["operands"] if one.get("created")] == ["wrong"]
    counts = [record["count"] for record in server.records if record["record"] == "count"]
    assert max(counts) == CYCLES


C_SERVER = r"""
enum { TO_DEVICE = 1, TO_HOST = 2, BETWEEN = 3, DEFAULT = 4 };
int cudaMalloc(void**, size_t);
int cudaFree(void*);
int cudaMemcpy(void*, const void*, size_t, int);
int cudaSetDevice(int);
static volatile int stop;
static volatile unsigned long steps[4];
static void* work(void* number) {
  char host[4096];
  cudaSetDevice((long)number % 2);
  while (!stop) {
    void *device, *small = malloc(100 + steps[(long)number] % 5000);
    if (cudaMalloc(&device, 4096) || cudaMemcpy(device, host, sizeof host, TO_DEVICE) || cudaFree(device)) abort();
    free(small);
    ++steps[(long)number];
  }
  return NULL;
}
static void* idle(void* unused) {
  pause();
  return NULL;
}
__attribute__((noinline)) int wrong(void* here) {
  static char host[64];
  return cudaMemcpy(here, host, sizeof host, TO_HOST);
}
int main(int argc, char** argv) {
  pthread_t threads[4], other;
  void *first, *second;
  char line[100];
  int busy = argc < 2;
  cudaSetDevice(0);
  cudaMalloc(&first, 1 << 20);
  cudaSetDevice(1);
  cudaMalloc(&second, 1 << 20);
  if (!busy) pthread_create(&other, NULL, idle, NULL);
  for (long i = 0; busy && i < 4; ++i) pthread_create(&threads[i], NULL, work, (void*)i);
  printf("ready %d\n", getpid());
  fflush(stdout);
  while (fgets(line, sizeof line, stdin) && strncmp(line, "end", 3)) {
    void* own;
    cudaSetDevice(0);
    cudaMalloc(&own, 4096);
    if (!strncmp(line, "wrong", 5)) printf("answer %d\n", wrong(own));
    else if (!strncmp(line, "before", 6)) printf("answer %d\n", cudaMemcpy(second, first, 4096, DEFAULT));
    else printf("answer %lu %lu %lu %lu\n", steps[0], steps[1], steps[2], steps[3]);
    cudaFree(own);
    fflush(stdout);
  }
  stop = 1;
  for (int i = 0; busy && i < 4; ++i) pthread_join(threads[i], NULL);
  printf("ended\n");
  return 0;
}
"""


def start(folder, *arguments) -> Running:
    program = build(folder, "server", C_SERVER, "-g", RUNTIME, DRIVER)
    return Running([DEVTRACE, "rehearse", "--gpus", 2, "--no-trace", "--", program, *arguments], folder, environment(None))


def test_a_c_program_under_load(tmp_path, running):  # noqa: F811
    running.append(start(tmp_path))
    server = running[0]
    before = [int(one) for one in server.ask("steps")]
    for _ in range(CYCLES):
        for action in (["attach", "--no-wait"], ["detach"]):
            done = command(*action, server.pid)
            assert done.returncode == 0, done.stderr
    server.ask("wrong")
    assert server.findings == []
    assert command("attach", "--no-wait", server.pid).returncode == 0
    server.ask("wrong")
    assert all(int(now) > then for now, then in zip(server.ask("steps"), before))
    assert server.end() == 0
    finding = server.findings[0]
    assert [one["kind"] for one in server.findings] == ["copy-mismatch"]
    assert "wrong" in [frame.get("function") for frame in finding["native"]]
    assert server.records[-1]["record"] == "end"


def test_owners_of_what_was_there_before_are_asked_of_the_driver(tmp_path, running):  # noqa: F811
    running.append(start(tmp_path, "idle"))
    server = running[0]
    assert command("attach", "--no-wait", server.pid).returncode == 0
    server.ask("before")
    assert server.end() == 0
    assert server.findings == []
    traffic = [record for record in server.records if record["record"] == "traffic"]
    assert [(one["from"], one["to"], one["bytes"]) for one in traffic] == [("cuda:0", "cuda:1", 4096)]


def test_threads_that_all_wait_are_attached_to_at_once(tmp_path, running):  # noqa: F811
    running.append(start(tmp_path, "idle"))
    # None of them ever moves: whoever waits for that gives up.
    done = command("attach", "--no-wait", running[0].pid)
    assert done.returncode == 0, done.stderr
    assert running[0].ask("steps") == ["0", "0", "0", "0"]
    assert running[0].end() == 0


def test_a_debuggers_view_is_as_before(tmp_path, running):  # noqa: F811
    """No instruction of the program or the C library is changed."""
    running.append(start(tmp_path, "idle"))
    server = running[0]

    def code() -> dict[str, bytes]:
        found = {}
        with open(f"/proc/{server.pid}/mem", "rb") as memory:
            for line in open(f"/proc/{server.pid}/maps"):
                words = line.split()
                if "x" in words[1] and len(words) > 5 and words[5].startswith("/") and "devtrace" not in words[5]:
                    begin, end = (int(number, 16) for number in words[0].split("-"))
                    memory.seek(begin)
                    found[words[0]] = memory.read(end - begin)
        return found

    before = code()
    assert command("attach", "--no-wait", server.pid).returncode == 0
    assert {place: text for place, text in code().items() if place in before} == before
    assert command("detach", server.pid).returncode == 0
    assert server.end() == 0


def test_it_is_said_what_hinders(tmp_path, running):  # noqa: F811
    # There is no such process; one that has ended, and that nobody has waited for.
    done = command("attach", 1 << 22)
    assert (done.returncode, done.stderr) == (3, f"devtrace attach: there is no process {1 << 22}\n")
    gone = subprocess.Popen(["true"])
    wait_for(lambda: ") Z " in open(f"/proc/{gone.pid}/stat").read())
    done = command("attach", gone.pid)
    assert done.returncode == 3 and f"process {gone.pid} is exiting" in done.stderr
    gone.wait()
    # No CUDA in it.
    plain = subprocess.Popen(["sleep", "100"])
    done = command("attach", plain.pid)
    assert done.returncode == 6 and "has not loaded CUDA" in done.stderr and "devtrace run" in done.stderr
    assert done.stderr.count("\n") == 1
    maps = open(f"/proc/{plain.pid}/maps").read()
    assert "devtrace" not in maps
    done = command("detach", plain.pid)
    assert done.returncode == 7 and "is not attached to" in done.stderr
    # Stopped, traced, the kernel's own.
    plain.send_signal(19)
    wait_for(lambda: ") T " in open(f"/proc/{plain.pid}/stat").read())
    done = command("attach", plain.pid)
    assert done.returncode == 5 and f"kill -CONT {plain.pid}" in done.stderr
    plain.kill()
    plain.wait()
    assert command("attach", 2).returncode in (3, 4, 5)
    # Numbers that are none.
    for wrong in ("x", "-5", "0", "1.5", ""):
        done = command("attach", wrong)
        assert done.returncode in (2, 3) and done.stderr, wrong


def test_what_cannot_be_opened_in_the_process_leaves_it_untouched(tmp_path, running):  # noqa: F811
    running.append(start(tmp_path))
    server = running[0]
    broken = tmp_path / "libdevtrace.so"
    broken.write_text("no library")
    done = command("attach", server.pid, env={**environment(None), "DEVTRACE_LIBRARY": str(broken)})
    assert done.returncode == 9 and str(broken) in done.stderr and "file too short" in done.stderr
    done = command("attach", server.pid, "--option", "log_path=" + "x" * 9000)
    assert done.returncode == 9 and "list of options" in done.stderr
    assert b"[anon" not in open(f"/proc/{server.pid}/maps", "rb").read()
    server.ask("steps")
    assert command("attach", "--no-wait", server.pid).returncode == 0
    assert server.end() == 0


FORBIDS = r"""
#include <sys/prctl.h>
int cudaMalloc(void**, size_t);
int main() {
  void* memory;
  cudaMalloc(&memory, 64);
  if (setuid(1000)) return 1;
  prctl(PR_SET_DUMPABLE, 0);
  printf("ready %d\n", getpid());
  fflush(stdout);
  getchar();
  printf("ended\n");
}
"""


def test_who_is_not_allowed_is_told_what_to_do(tmp_path, running):  # noqa: F811
    if os.getuid() != 0:
        pytest.skip("needs a second user")
    running.append(start(tmp_path))
    other = ["setpriv", "--reuid", "1000", "--clear-groups"]
    if subprocess.run([*other, DEVTRACE, "--version"], capture_output=True).returncode:
        pytest.skip("another user cannot run the command where it lies")
    done = subprocess.run([*other, DEVTRACE, "attach", str(running[0].pid)], capture_output=True, text=True)
    assert done.returncode == 4, done.stderr
    assert "belongs to another user (uid 0)" in done.stderr and f"sudo devtrace attach {running[0].pid}" in done.stderr
    # A process of the same user that forbids it.
    folder = tmp_path / "forbids"
    folder.mkdir()
    program = build(folder, "server", FORBIDS, RUNTIME, DRIVER)
    running.append(Running([DEVTRACE, "rehearse", "--no-trace", "--", program], folder, environment(None)))
    done = subprocess.run([*other, DEVTRACE, "attach", str(running[1].pid)], capture_output=True, text=True)
    assert done.returncode == 4 and "PR_SET_DUMPABLE" in done.stderr, done.stderr
    assert done.stderr.count("\n") == 1
