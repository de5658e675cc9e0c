"""What a launch costs in a process before devtrace is attached, while it is, after it was detached, and preloaded; and how long
attaching takes.

    tests/bench/attach_bench.py [--build build] [--rounds 5]

The driver is one whose functions do nothing, so the figures are the hook's own.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

DRIVER = """
#include <stddef.h>
#include <string.h>
int cuLaunchKernel() { return 0; }
int cuDriverGetVersion(int* version) { *version = 13000; return 0; }
int cuCtxGetDevice(int* device) { *device = 0; return 0; }
int cuFuncGetName(const char** name, void* function) { *name = "kernel"; return 0; }
int cuFuncGetParamInfo(void* function, size_t index, size_t* offset, size_t* bytes) {
  *offset = 0;
  *bytes = 8;
  return index == 0 ? 0 : 1;
}
int cuPointerGetAttributes(unsigned count, int* attributes, void** answers, unsigned long address) {
  for (unsigned i = 0; i < count; ++i) memset(answers[i], 0, 4);
  return 0;
}
"""
PROGRAM = """
#include <stdio.h>
#include <time.h>
#include <unistd.h>
int cuLaunchKernel(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**);
static char kernel[64];
int main(void) {
  char line[100];
  printf("%d\\n", getpid());
  fflush(stdout);
  while (fgets(line, sizeof line, stdin)) {
    void* pointer = NULL;
    void* arguments[] = {&pointer};
    struct timespec begin, end;
    enum { N = 3000000 };
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int i = 0; i < N; ++i) cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, 0, arguments, 0);
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("%f\\n", ((end.tv_sec - begin.tv_sec) * 1e9 + (end.tv_nsec - begin.tv_nsec)) / N);
    fflush(stdout);
  }
}
"""


def build(folder: Path) -> Path:
    def compiled(source: str, *flags) -> None:
        subprocess.run(["gcc", "-O2", "-w", "-x", "c", "-", "-x", "none", *flags], input=source, text=True, check=True, cwd=folder)

    compiled(DRIVER, "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", "libcuda.so.1")
    compiled(PROGRAM, "libcuda.so.1", f"-Wl,-rpath,{folder}", "-o", "program")
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
        env = {**os.environ, "LD_PRELOAD": str((options.build / "libdevtrace.so").resolve())}
        program = subprocess.Popen([Path(folder) / "program"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=folder, env=env)
        program.stdout.readline()
        for _ in range(options.rounds):
            measure("preloaded")
        program.stdin.close()
        program.wait()
    for name in ("before", "attached", "after", "preloaded"):
        print(f"a launch {name:<10} {least[name]:>7.1f} ns   {least[name] / least['before']:>5.2f}")
    for name in ("attaching", "detaching"):
        print(f"{name:<19} {least[name] * 1e3:>7.0f} ms")


main()
