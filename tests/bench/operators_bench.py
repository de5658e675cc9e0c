"""How much longer ordinary operators and modules take under rehearsal than on the CPU: ratios side by side, one thread, processor time.

    python tests/bench/operators_bench.py --build build

Products and convolutions of halves stand beside the CPU's in float32: its own kernels for them are naive. A small tensor's time is nearly all
overhead, that of a large one nearly none.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOP = HERE.parent.parent
IN_FLOAT = ", float16"


def run(prefix, device, size) -> dict:
    done = subprocess.run([*map(str, prefix), sys.executable, HERE / "ordinary/operators.py", device, size], capture_output=True, text=True, cwd="/tmp")
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build")
    parser.add_argument("--sizes", nargs="*", default=["small", "large"], choices=["small", "large"])
    options = parser.parse_args()
    devtrace = (TOP / options.build / "devtrace").resolve()
    for size in options.sizes:
        cpu = run([], "cpu", size)
        ways = {"rehearsed": [], "not traced": ["--no-trace"]}
        seconds = {way: run([devtrace, "rehearse", "--gpus", "1", *flags, "--option", "log_path=/dev/null", "--"], "cuda", size) for way, flags in ways.items()}
        print(f"{size:<30} {'cpu':>12} " + " ".join(f"{way:>23}" for way in ways))
        for name, own in cpu.items():
            beside = cpu.get(name.removesuffix(IN_FLOAT), own)
            each = " ".join(f"{seconds[way][name] * 1e6:12.1f} us {seconds[way][name] / beside:6.2f} x" for way in ways)
            print(f"{name:<30} {own * 1e6:9.1f} us {each}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
