"""How much longer whole ordinary programs take under rehearsal than on the CPU, from start to exit: processor time, side by side.

    python tests/bench/ordinary_bench.py --build build
"""

import argparse
import os
import resource
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOP = HERE.parent.parent
WAYS = {"cpu": None, "rehearsed": [], "not traced": ["--no-trace"]}
PROGRAMS = {
    "an epoch of a small CNN": ["small_cnn.py"],
    "a tiny GPT, trained and generating": ["tiny_gpt.py"],
    "unit tests of tensor operations": ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", ".", "tensor_operations.py"],
    "import torch": ["-c", "import torch, sys; torch.ones(1).to(sys.argv[1])"],
}  # fmt: skip


def seconds(prefix, arguments, device) -> float:
    """Of the processor, with all children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    given = arguments if "pytest" in arguments else [*arguments, device]
    environment = {**os.environ, "DEVICE": device, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*map(str, prefix), sys.executable, *given], cwd=HERE / "ordinary", env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments)} on {device}: {done.stdout}{done.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="programs whose name has this in it")
    options = parser.parse_args()
    rehearse = [(TOP / options.build / "devtrace").resolve(), "rehearse", "--gpus", "1", "--option", f"log_path={os.devnull}"]
    print(f"{'':<36} {'cpu':>8} " + " ".join(f"{way:>20}" for way in list(WAYS)[1:]))
    for name, arguments in ((n, a) for n, a in PROGRAMS.items() if options.only in n):
        least = {way: float("inf") for way in WAYS}
        for _ in range(options.rounds):
            for way, flags in WAYS.items():
                prefix = [] if flags is None else [*rehearse, *flags, "--"]
                least[way] = min(least[way], seconds(prefix, arguments, "cpu" if flags is None else "cuda"))
        print(f"{name:<36} {least['cpu']:6.2f} s " + " ".join(f"{least[way]:9.2f} s {least[way] / least['cpu']:6.2f} x" for way in list(WAYS)[1:]), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
