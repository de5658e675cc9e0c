"""What a launch costs in a process before devtrace is attached, while it is, and after it was detached; in turns, and how long
attaching takes.

    tests/bench/attach_bench.py [--build build] [--rounds 5]

The runtime is one whose functions do nothing, so the figures are the hook's own.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RUNTIME = """
int cudaLaunchKernel(const void* function, unsigned long g0, unsigned g1, unsigned long b0, unsigned b1, void** arguments, unsigned long shared, void* stream) { return 0; }
"""
PROGRAM = """
#include <stdio.h>
#include <time.h>
#include <unistd.h>
typedef struct { unsigned x, y, z; } dim3;
int cudaLaunchKernel(const void*, dim3, dim3, void**, unsigned long, void*);
static void kernel(void) {}
int main(void) {
  char line[100];
  dim3 one = {1, 1, 1};
  printf("%d\\n", getpid());
  fflush(stdout);
  while (fgets(line, sizeof line, stdin)) {
    void* pointer = line;
    void* arguments[] = {&pointer};
    struct timespec begin, end;
    enum { N = 3000000 };
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int i = 0; i < N; ++i) cudaLaunchKernel((void*)kernel, one, one, arguments, 0, 0);
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("%f\\n", ((end.tv_sec - begin.tv_sec) * 1e9 + (end.tv_nsec - begin.tv_nsec)) / N);
    fflush(stdout);
  }
}
"""


def build(folder: Path) -> Path:
    def compiled(source: str, *flags) -> None:
        subprocess.run(["gcc", "-O2", "-w", "-x", "c", "-", "-x", "none", *flags], input=source, text=True, check=True, cwd=folder)

    compiled(RUNTIME, "-shared", "-fPIC", "-Wl,-soname,libcudart.so.13", "-o", "libcudart.so.13")
    compiled(PROGRAM, "libcudart.so.13", f"-Wl,-rpath,{folder}", "-o", "program")
    return folder / "program"


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--build", type=Path, default=Path("build"))
    arguments.add_argument("--rounds", type=int, default=5)
    options = arguments.parse_args()
    least: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        program = subprocess.Popen([build(Path(folder))], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=folder)
        pid = program.stdout.readline().strip()

        def measure(name: str, value=None) -> None:
            if value is None:
                program.stdin.write("\n")
                program.stdin.flush()
                value = float(program.stdout.readline())
            least[name] = min(value, least.get(name, value))

        def devtrace(*words) -> float:
            began = time.monotonic()
            done = subprocess.run([options.build / "devtrace", *words, pid], capture_output=True, text=True)
            if done.returncode:
                sys.exit(done.stderr)
            return time.monotonic() - began

        measure("before")
        measure("before")
        for _ in range(options.rounds):
            measure("attaching", devtrace("attach", "--no-wait"))
            measure("attached")
            measure("detaching", devtrace("detach"))
            measure("after")
        program.stdin.close()
        program.wait()
    for name in ("before", "attached", "after"):
        print(f"a launch {name:<10} {least[name]:>7.1f} ns   {least[name] / least['before']:>5.2f}")
    for name in ("attaching", "detaching"):
        print(f"{name:<19} {least[name] * 1e3:>7.0f} ms")


main()
