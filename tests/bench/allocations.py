"""What the native stack of an allocation costs in a C++ program: with it and without, side by side, in turns.

    tests/bench/allocations.py [--build build] [--rounds 5]
"""

import argparse
import json
import os
import subprocess
from pathlib import Path


def measured(program: Path, stacks: int) -> dict[str, float]:
    env = {**os.environ, "DEVTRACE_OPTIONS": f"allocation_stacks={stacks}:log_path=/dev/null"}
    command = [program, "--benchmark_filter=AllocateBelow", "--benchmark_min_time=0.2", "--benchmark_format=json"]
    told = json.loads(subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout)
    # Of several threads `real_time` is that of one pair on one of them as long as there is a core for each.
    return {run["name"]: run["cpu_time"] for run in told["benchmarks"]}


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--build", type=Path, default=Path("build"))
    arguments.add_argument("--rounds", type=int, default=5)
    options = arguments.parse_args()
    least: dict[int, dict[str, float]] = {0: {}, 1: {}}
    for _ in range(options.rounds):
        for stacks, known in least.items():
            for name, nanoseconds in measured(options.build / "bench/provenance", stacks).items():
                known[name] = min(nanoseconds, known.get(name, nanoseconds))
    print(f"{'an allocation and its end':<40} {'without':>10} {'with':>10} {'ratio':>7}")
    for name, without in least[0].items():
        print(f"{name:<40} {without:>7.0f} ns {least[1][name]:>7.0f} ns {least[1][name] / without:>7.2f}")


main()
