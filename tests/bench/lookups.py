"""What a look-up by name costs, bare and with devtrace preloaded, side by side in one run: processor time, the least of several rounds.

    python tests/bench/lookups.py --build build
"""

import argparse
import os
import subprocess
from pathlib import Path


def run(program: Path, preload: str, count: int, folder: Path) -> dict[str, float]:
    """Kind of look-up → nanoseconds."""
    env = {**os.environ, "LD_PRELOAD": preload, "LD_LIBRARY_PATH": str(folder)}
    out = subprocess.run([program, str(count), "times"], env=env, capture_output=True, text=True, check=True).stdout
    return {kind: float(value) for kind, value in (line.rsplit(": ", 1) for line in out.splitlines())}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=Path("build"))
    parser.add_argument("--count", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    build = options.build.resolve()
    best: list[dict[str, float]] = [{}, {}]
    for _ in range(options.rounds):
        for turn, preload in enumerate(("", str(build / "libdevtrace.so"))):
            for kind, value in run(build / "tests/lookups", preload, options.count, build / "simulate").items():
                best[turn][kind] = min(value, best[turn].get(kind, value))
    print(f"{'look-up':24}{'bare':>10}{'devtrace':>12}{'times':>8}")
    for kind, bare in best[0].items():
        traced = best[1][kind]
        print(f"{kind:24}{bare:7.0f} ns{traced:9.0f} ns{traced / bare:8.2f}")


if __name__ == "__main__":
    main()
