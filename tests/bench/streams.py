"""What a stream or an event costs that devtrace keeps with the place that made it: simulated devices alone, and under devtrace, in turns.

    tests/bench/streams.py [--build build] [--rounds 5]
"""

import argparse
import subprocess
import tempfile
from pathlib import Path

PAIRS = {
    "a stream and its end": "cudaStream_t it; cudaStreamCreateWithFlags(&it, cudaStreamNonBlocking); cudaStreamDestroy(it);",
    "an event and its end": "cudaEvent_t it; cudaEventCreateWithFlags(&it, cudaEventDisableTiming); cudaEventDestroy(it);",
    "an event, recorded, and its end": "cudaEvent_t it; cudaEventCreateWithFlags(&it, cudaEventDisableTiming); cudaEventRecord(it, 0); cudaEventDestroy(it);",
}
PROGRAM = """
#include <cuda_runtime_api.h>
#include <chrono>
#include <cstdio>
template <class Pair> void measure(Pair pair) {
  for (int i = 0; i < 1000; ++i) pair();
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 20000; ++i) pair();
  std::printf("%f\\n", std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count() / 20000);
}
int main() {
""" + "".join(f"  measure([] {{ {pair} }});\n" for pair in PAIRS.values()) + "}\n"


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--build", type=Path, default=Path("build"))
    arguments.add_argument("--rounds", type=int, default=5)
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder, "streams.cpp"), Path(folder, "streams")
        source.write_text(PROGRAM)
        subprocess.run(["g++", "-O2", source, "-o", program, "-isystem", ".cache/cuda/include", options.build / "simulate/libcudart.so.13",
                        "-Wl,--allow-shlib-undefined"], check=True)
        least: dict[bool, list[float]] = {}
        for _ in range(options.rounds):
            for traced in (False, True):
                flags = [] if traced else ["--no-trace"]
                told = subprocess.run([(options.build / "devtrace").resolve(), "rehearse", "--gpus", "1", *flags, "--", program], cwd=folder,
                                      capture_output=True, text=True, check=True).stdout
                times = [float(line) for line in told.split()]
                least[traced] = [min(pair) for pair in zip(times, least.get(traced, times), strict=True)]
    print(f"{'':<34} {'without':>10} {'with':>10} {'ratio':>7}")
    for name, without, with_it in zip(PAIRS, least[False], least[True], strict=True):
        print(f"{name:<34} {without:>7.0f} ns {with_it:>7.0f} ns {with_it / without:>7.2f}")


main()
