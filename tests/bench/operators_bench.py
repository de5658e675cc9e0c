"""How much longer single things take under rehearsal than on the CPU: what was far slower once. Ratios side by side, one thread, processor time.

    python tests/bench/operators_bench.py --build build

`cpu` is the CPU's own way; for products of halves, whose CPU kernel is naive, the same in float32 is what a rehearsal is measured against.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent.parent

PROGRAM = """
import json, sys, time
import torch
from torch import nn
torch.set_num_threads(1)
device = sys.argv[1]

def least(function, rounds=5):
    function()
    seconds = []
    for _ in range(rounds):
        start = time.process_time()
        function()
        seconds.append(time.process_time() - start)
    return min(seconds)

def product(n, dtype):
    a = torch.randn(n, n).to(dtype).to(device)
    return least(lambda: a @ a)

def convolution(dtype):
    layer, x = nn.Conv2d(16, 16, 3, padding=1).to(dtype).to(device), torch.randn(2, 16, 64, 64).to(dtype).to(device)
    return least(lambda: layer(x))

def lstm():
    layer, x = nn.LSTM(32, 32, 2).to(device), torch.randn(50, 4, 32, device=device)
    if device == "cpu":
        return least(lambda: layer(x))
    with torch.no_grad():
        layer(x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            layer(x)
    return least(graph.replay)

def blocks():
    def churn():
        kept = [torch.empty(1 + 4096 * i, device=device) for i in range(200)]
        del kept[::2]
        [torch.empty(3000 * i + 1, device=device) for i in range(200)]
    return least(churn)

def sparse():
    matrix, other = torch.randn(200, 200).relu().to(device).to_sparse(), torch.randn(200, 64, device=device)
    return least(lambda: torch.sparse.mm(matrix, other))

print(json.dumps({
    "product 512, float32": product(512, torch.float32), "product 512, float16": product(512, torch.float16), "product 512, bfloat16": product(512, torch.bfloat16),
    "convolution, float32": convolution(torch.float32), "convolution, float16": convolution(torch.float16), "LSTM of 50 steps, captured": lstm(),
    "400 blocks": blocks(), "sparse product": sparse(),
}))
"""


def run(prefix, device) -> dict:
    done = subprocess.run([*map(str, prefix), sys.executable, "-c", PROGRAM, device], capture_output=True, text=True, cwd="/tmp")
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build")
    options = parser.parse_args()
    cpu = run([], "cpu")
    rehearsed = run([(TOP / options.build / "devtrace").resolve(), "rehearse", "--gpus", "1", "--"], "cuda")
    print(f"{'':<28} {'cpu':>10} {'rehearsed':>10}")
    for name, seconds in rehearsed.items():
        beside = cpu[name.replace("float16", "float32")] if "bfloat16" not in name else cpu[name]
        print(f"{name:<28} {cpu[name] * 1e3:8.2f} ms {seconds * 1e3:8.2f} ms {seconds / beside:6.2f} x{' of float32' if beside != cpu[name] else ''}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
