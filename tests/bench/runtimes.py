"""What a call of the CUDA runtime costs where one runtime is loaded and where two of one version are, bare and with devtrace preloaded.
Side by side in one run: processor time, the least of several rounds. The runtimes are empty functions, so this is all there is to a call.

    python tests/bench/runtimes.py --build build
"""

import argparse
import os
import subprocess
import tempfile
from pathlib import Path

RUNTIME = "int cudaFree(void* p) { return 0; }\n"
# As PyTorch is: a library with the calls, opened by a program that is linked to no runtime.
CALLER = r"""
#include <stdio.h>
#include <time.h>
int cudaFree(void*);
void calls(long count) {
  for (int round = 0; round < 2; ++round) {  // the first finds the function
    clock_t start = clock();
    for (long i = 0; i < count; ++i) cudaFree(0);
    if (round) printf("%.1f\n", 1e9 * (clock() - start) / CLOCKS_PER_SEC / count);
  }
}
"""
PROGRAM = r"""
#include <dlfcn.h>
#include <stdlib.h>
int main(int argc, char** words) {
  void* caller = dlopen(words[1], RTLD_NOW);
  for (int i = 3; i < argc; ++i) dlopen(words[i], RTLD_NOW);
  ((void (*)(long))dlsym(caller, "calls"))(atol(words[2]));
}
"""


def compiled(output: Path, source: str, *flags) -> Path:
    output.parent.mkdir(exist_ok=True)
    shared = ["-shared", "-fPIC", f"-Wl,-soname,{output.name}"] if ".so" in output.name else []
    subprocess.run(["gcc", "-x", "c", "-O1", *shared, "-o", output, "-", "-x", "none", *flags, "-ldl"], input=source, text=True, check=True)
    return output


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=Path("build"))
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        versions = folder / "versions"
        versions.write_text("libcudart.so.13 { global: *; };")
        one, two = (compiled(folder / place / "libcudart.so.13", RUNTIME, f"-Wl,--version-script={versions}") for place in ("one", "two"))
        caller = compiled(folder / "libcaller.so", CALLER, one, f"-Wl,-rpath,{one.parent}")
        program = compiled(folder / "program", PROGRAM)

        def least(preload: Path | str, *more) -> float:
            command = [program, caller, str(options.count), *more]
            env = {**os.environ, "LD_PRELOAD": str(preload), "DEVTRACE_OPTIONS": "log_path=/dev/null"}
            return min(float(subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout) for _ in range(options.rounds))

        print(f"{'runtimes':24}{'bare':>10}{'devtrace':>12}")
        for name, more in (("one", []), ("two of one version", [two])):
            print(f"{name:24}{least('', *more):7.1f} ns{least((options.build / 'libdevtrace.so').resolve(), *more):9.1f} ns")


if __name__ == "__main__":
    main()
