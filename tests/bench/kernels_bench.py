"""Processor time of kernels that a rehearsal computes, beside the same work as loops that clang compiles without vectors (g++ where there is no clang).

    tests/bench/kernels_bench.py --build BUILD"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOP = HERE.parent.parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, required=True)
    build = parser.parse_args().build.resolve()
    nvcc = TOP / ".cache/nvcc/bin/nvcc"
    if not nvcc.exists():
        sys.exit("no nvcc in .cache/nvcc: scripts/get/nvcc makes it of the wheels")
    compiler = shutil.which("clang++") or shutil.which("clang++-14") or "g++"
    scalar = ["-fno-vectorize", "-fno-slp-vectorize"] if "clang" in compiler else ["-fno-tree-vectorize"]
    with tempfile.TemporaryDirectory() as scratch:
        program, loops = Path(scratch) / "kernels", Path(scratch) / "loops.o"
        subprocess.run([compiler, "-O2", *scalar, "-c", HERE / "kernels_on_host.cpp", "-o", loops], check=True)
        subprocess.run([nvcc, "-std=c++17", "-O2", "-arch=compute_80", "-cudart", "shared", "-o", program, HERE / "kernels.cu", loops], check=True)
        run = subprocess.run([build / "devtrace", "rehearse", "--gpus", "1", "--kernels", "--no-html", "--log-path", scratch, "--", program],
                             cwd=scratch, capture_output=True, text=True)
    if run.returncode:
        sys.exit(run.stdout + run.stderr)
    print(f"{'':12} {'ns a thread':>12} {'loops':>8} {'times':>7}   ({Path(compiler).name} -O2 without vectors)")
    for line in run.stdout.splitlines():
        name, threads, kernel, plain = line.rsplit(maxsplit=3)
        print(f"{name:12} {float(kernel) / int(threads) * 1e9:12.1f} {float(plain) / int(threads) * 1e9:8.1f} {float(kernel) / float(plain):7.1f}")


if __name__ == "__main__":
    main()
