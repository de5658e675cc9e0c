"""What a rehearsal costs with several releases of PyTorch, side by side: the kernels that devtrace brings for it, Python alone, and the CPU.

    python tests/bench/torch_releases.py --build build PYTHON…        (each with a PyTorch; the first is what the others are compared with)

A small transformer is trained on one thread, without tracing: all overhead. Figures are processor time, which other programs on the machine do not
stretch: the least of several rounds, of several processes in turn.
"""

import argparse
import json
import os
import subprocess
from pathlib import Path

PROGRAM = """
import json, sys, time
import torch
device, rounds = sys.argv[1], int(sys.argv[2])
torch.set_num_threads(1)
torch.manual_seed(0)
layer = torch.nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
model = torch.nn.Sequential(torch.nn.Embedding(100, 64), torch.nn.TransformerEncoder(layer, 4, enable_nested_tensor=False), torch.nn.Linear(64, 100)).to(device)
optimizer = torch.optim.AdamW(model.parameters())
words = torch.arange(32, device=device)[None]
times, loss = [], None
for _ in range(rounds + 1):
    start = time.process_time()
    for _ in range(5):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(words).flatten(0, 1), words.flatten())
        loss.backward()
        optimizer.step()
    loss = loss.item()
    times.append((time.process_time() - start) / 5)
print(json.dumps({"torch": torch.__version__, "seconds": min(times[1:]), "loss": loss}))
"""
WAYS = ("CPU", "rehearsed", "by way of Python")


def run(python: Path, way: str, options) -> dict:
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("DEVTRACE", "PYTHON", "LD_"))}
    prefix = [] if way == "CPU" else [options.build.resolve() / "devtrace", "rehearse", "--no-trace", "--gpus", "1", "--"]
    if way == "by way of Python":
        environment["DEVTRACE_SIM_VALUES"] = "python"
    command = [*prefix, Path(os.path.abspath(python)), "-c", PROGRAM, "cpu" if way == "CPU" else "cuda:0", options.rounds]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, cwd="/tmp", env=environment)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=Path("build"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("pythons", nargs="+", type=Path, metavar="PYTHON")
    options = parser.parse_args()
    found: dict[tuple, list] = {}
    for _ in range(options.processes):
        for python in options.pythons:
            for way in WAYS:
                found.setdefault((python, way), []).append(run(python, way, options))
    print("| PyTorch | CPU | rehearsed | times the CPU's | times the first's | by way of Python | times the first's |\n|---|---:|---:|---:|---:|---:|---:|")
    first = None
    for python in options.pythons:
        least = {way: min(one["seconds"] for one in found[python, way]) for way in WAYS}
        losses = {way: found[python, way][0]["loss"] for way in WAYS}
        if max(losses.values()) - min(losses.values()) > 1e-3:
            raise SystemExit(f"{python}: not the same values: {losses}")
        first = first or least
        cells = [f"{least[way] * 1e3:.2f} ms" for way in WAYS]
        of_first = [least[way] / first["rehearsed"] for way in WAYS]
        name = found[python, "CPU"][0]["torch"]
        print(f"| {name} | {cells[0]} | {cells[1]} | {least['rehearsed'] / least['CPU']:.2f} | {of_first[1]:.2f} | {cells[2]} | {of_first[2]:.2f} |")


if __name__ == "__main__":
    main()
