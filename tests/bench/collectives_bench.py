"""An all-reduce between processes: a rehearsal's NCCL, and gloo on the CPU without devtrace, in turns. And a rank's training step with
DistributedDataParallel in a job of that many ranks, beside as many jobs of one rank at once: processor time.

    tests/bench/collectives_bench.py [--build build] [--rounds 3] [--ranks 2]
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SIZES = {"1 KiB": 1 << 10, "1 MiB": 1 << 20}
CALLS = 200
PROGRAM = f"""
import os, sys, time, multiprocessing
import torch, torch.distributed as dist
backend, world = sys.argv[1], int(sys.argv[2])
def run(rank):
    torch.set_num_threads(1)
    if backend == "nccl": torch.cuda.set_device(rank)
    dist.init_process_group(backend, store=dist.FileStore(os.path.abspath("store"), world), rank=rank, world_size=world)
    done = torch.cuda.synchronize if backend == "nccl" else lambda: None
    for size in {list(SIZES.values())}:
        x = torch.zeros(size // 4, device="cuda" if backend == "nccl" else "cpu")
        for i in range({CALLS} + 20):
            if i == 20: begin = time.perf_counter()
            dist.all_reduce(x)
            done()
        if rank == 0: print((time.perf_counter() - begin) / {CALLS} * 1e6, flush=True)
    dist.destroy_process_group()
ranks = [multiprocessing.get_context("fork").Process(target=run, args=(rank,)) for rank in range(world)]
for each in ranks: each.start()
for each in ranks: each.join()
"""

STEPS = 100
TRAINING = f"""
import os, sys, time, multiprocessing
import torch, torch.distributed as dist
world, jobs = int(sys.argv[1]), int(sys.argv[2])
def run(device):
    rank, job = device % world, device // world
    torch.set_num_threads(1)
    torch.cuda.set_device(device)
    model = torch.nn.Sequential(*[layer for _ in range(4) for layer in (torch.nn.Linear(512, 512), torch.nn.ReLU())]).cuda()
    dist.init_process_group("nccl", store=dist.FileStore(os.path.abspath(f"store{{job}}"), world), rank=rank, world_size=world)
    model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[device])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x = torch.ones(64, 512, device="cuda")
    for i in range({STEPS} + 10):
        if i == 10:
            torch.cuda.synchronize()
            begin = time.process_time()
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    torch.cuda.synchronize()
    if device == 0: print((time.process_time() - begin) / {STEPS} * 1e3, flush=True)
    dist.destroy_process_group()
ranks = [multiprocessing.get_context("fork").Process(target=run, args=(device,)) for device in range(world * jobs)]
for each in ranks: each.start()
for each in ranks: each.join()
"""


def step(build: Path, ranks: int, jobs: int) -> float:
    """Milliseconds of the processor for one step of the first job's rank 0."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "program.py").write_text(TRAINING)
        command = [(build / "devtrace").resolve(), "rehearse", "--no-trace", "--gpus", max(2, ranks * jobs), "--", sys.executable, "program.py", ranks, jobs]
        answer = subprocess.run([str(part) for part in command], cwd=folder, check=True, text=True, stdout=subprocess.PIPE)
    return float(answer.stdout)


def measure(build: Path, backend: str, ranks: int) -> list[float]:
    rehearse = [(build / "devtrace").resolve(), "rehearse", "--no-trace", "--gpus", ranks, "--"] if backend == "nccl" else []
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "program.py").write_text(PROGRAM)
        command = [str(part) for part in [*rehearse, sys.executable, "program.py", backend, ranks]]
        answer = subprocess.run(command, cwd=folder, check=True, text=True, stdout=subprocess.PIPE, env={**os.environ, "GLOO_SOCKET_IFNAME": "lo"})
    return [float(line) for line in answer.stdout.splitlines()]


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--build", type=Path, default=Path("build"))
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--ranks", type=int, default=2)
    options = arguments.parse_args()
    least: dict[str, list[float]] = {}
    for _ in range(options.rounds):
        for backend in ("nccl", "gloo"):
            seen = measure(options.build, backend, options.ranks)
            least[backend] = [min(pair) for pair in zip(least.get(backend, seen), seen)]
    for name, nccl, gloo in zip(SIZES, least["nccl"], least["gloo"]):
        print(f"all-reduce of {name} over {options.ranks} ranks: {nccl:.0f} us, gloo {gloo:.0f} us, {nccl / gloo:.2f} times")
    forms = {"together": (options.ranks, 1), "apart": (1, options.ranks), "alone": (1, 1)}
    steps = {name: min(step(options.build, *form) for _ in range(options.rounds)) for name, form in forms.items()}
    print(f"a DDP step of one of {options.ranks} ranks: {steps['together']:.1f} ms of the processor")
    print(f"of one of {options.ranks} jobs of one rank: {steps['apart']:.1f} ms, {steps['together'] / steps['apart']:.2f} times")
    print(f"of one such job on its own: {steps['alone']:.1f} ms, {steps['together'] / steps['alone']:.2f} times")


if __name__ == "__main__":
    main()
