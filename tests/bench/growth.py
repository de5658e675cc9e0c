"""How the cost of one launch, block, stack and operator grows with how many there are, written as docs/evidence/growth.md.

    python tests/bench/growth.py --build build [--write]

Processor time: of growth_bench.cpp, and of an operator on a rank in rehearsals of 1 to 64 ranks. Without --write it is printed alone.
"""

import argparse
import dataclasses
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "docs/evidence"
HOSTS = {1: (1, 1), 2: (2, 1), 4: (4, 1), 8: (8, 1), 16: (16, 1), 32: (16, 2), 64: (16, 4)}  # ranks: devices of a host, hosts
CALLS, ROUNDS = 30_000, 2

RANKS = f"""
import multiprocessing, os, sys, time
import torch, torch.distributed as dist
folder, world, here = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
host = int(os.environ.get("PET_NODE_RANK", 0))
def run(device):
    rank = host * here + device
    torch.set_num_threads(1)
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", store=dist.FileStore(os.path.join(folder, "store"), world), rank=rank, world_size=world)
    x = torch.zeros(256, device="cuda")
    for i in range({CALLS} + 10):
        if i == 10:
            dist.all_reduce(x)  # none begins before the others have come
            torch.cuda.synchronize()
            began = time.process_time()
        x.add_(1)
    took = time.process_time() - began
    with open(os.path.join(folder, "rank%d" % rank), "w") as file: file.write(str(took / {CALLS} * 1e9))
    dist.destroy_process_group()
ranks = [multiprocessing.get_context("fork").Process(target=run, args=(device,)) for device in range(here)]
for each in ranks: each.start()
for each in ranks: each.join()
"""


@dataclasses.dataclass(frozen=True)
class Curve:
    about: str
    what: str  # there are so many of
    straight: str = ""  # it grows with each by design: what bounds it; else it is flat
    least: int = 0  # fewer say nothing
    most: float = math.inf  # up to which it grows


CURVES = {
    "BlockByLive": Curve("a block given out and taken back", "live blocks", least=1000),
    "StackByPlaces": Curve("a Python stack of ten frames", "distinct stacks", least=1000),
    "StackByFrames": Curve("a Python stack that was seen before", "frames", "up to the 512 frames that are kept", most=300),
    "LaunchByThreads": Curve("a launch with four pointers", "threads"),
    "BlockByThreads": Curve("a block given out and taken back", "threads"),
    "LaunchByDevices": Curve("a launch with four pointers", "devices, each in turn"),
    "traced": Curve("`x.add_(1)` on each rank, with devtrace", "ranks"),
    "alone": Curve("the same without", "ranks"),
}
FLAT = 1.5  # the dearest to the cheapest: less tells the machine's other work from growth


def benchmark(program: Path) -> tuple[dict, dict]:
    """Nanoseconds by amount of each curve, and what the counters say of memory."""
    command = [program, "--benchmark_format=json", "--benchmark_min_time=0.1", "--benchmark_repetitions=5", "--benchmark_enable_random_interleaving=false"]
    answer = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    curves, memory = {}, {}
    for one in answer["benchmarks"]:
        if one["run_type"] != "iteration" or "error_message" in one:
            continue
        curve, _, amount = one["name"].removesuffix("/iterations:1048576").rpartition("/")
        curve, amount = curve.split("/")[0], int(amount.rpartition(":")[2])
        points = curves.setdefault(curve, {})
        points[amount] = min(points.get(amount, math.inf), one["cpu_time"])
        for counter in ("bytes", "mebibytes"):  # a table that has grown does not grow again
            if counter in one:
                memory[counter, amount] = max(memory.get((counter, amount), 0), one[counter])
    return curves, memory


def of_ranks(devtrace: Path, ranks: int, options: list[str]) -> float:
    """Nanoseconds of the median rank."""
    devices, hosts = HOSTS[ranks]
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "ranks.py"
        program.write_text(RANKS)
        rehearse = [devtrace, "rehearse", "--no-values", "--memory", "1GiB", "--gpus", devices, "--hosts", hosts, "--no-text", "--no-html", *options]
        command = [*rehearse, "--", sys.executable, program, folder, ranks, devices]
        subprocess.run([str(word) for word in command], check=True, capture_output=True, cwd=folder, env={**os.environ, "DEVTRACE_OPTIONS": ""})
        took = [float(file.read_text()) for file in Path(folder).glob("rank[0-9]*")]
    if len(took) != ranks:
        raise RuntimeError(f"{len(took)} of {ranks} ranks have ended")
    return statistics.median(took)


def judged(curve: Curve, points: dict[int, float]) -> tuple[str, str]:
    """Its slope, and what it is."""
    if curve.straight:
        within = {amount: ns for amount, ns in points.items() if amount <= curve.most}
        slope, start = statistics.linear_regression(list(within), list(within.values()))
        off = max(abs(ns - (start + slope * amount)) for amount, ns in within.items())
        return f"{slope:.2f} ns for each", "straight" if off <= (FLAT - 1) * max(within.values()) else "neither"
    logarithms = [math.log10(amount) for amount in points]
    slope = statistics.linear_regression(logarithms, list(points.values())).slope / statistics.median(points.values())
    return f"{100 * slope:+.0f} % for ten times as many", "flat" if max(points.values()) <= FLAT * min(points.values()) else "not flat"


def shown(ns: float) -> str:
    return f"{ns:.0f}" if ns < 10_000 else f"{ns / 1000:,.0f} µs"


def page(curves: dict, memory: dict, seconds: float) -> str:
    rows = ""
    for name, curve in CURVES.items():
        slope, word = judged(curve, curves[name])
        designed = f"straight, {curve.straight}" if curve.straight else "" if name == "alone" else "flat"
        figures = ", ".join(f"{amount:,}: {shown(ns)}" for amount, ns in curves[name].items())
        rows += f"| {curve.about}; {curve.what} | {figures} | {slope} | {word} | {designed} |\n"
    of_memory = "".join(
        f"| a live block, at {amount:,} | {each:.0f} B | 100 B |\n" if counter == "bytes" else f"| {amount:,} distinct stacks | {each:.0f} MiB | 64 MiB |\n"
        for (counter, amount), each in memory.items()
    )
    return f"""# How the cost grows

Written by `make bench-growth` ({seconds / 60:.0f} minutes): {time.strftime("%Y-%m-%d")}, {os.cpu_count()} cores, CPython {platform.python_version()}. What one launch, block, stack or operator costs the program beside so many others
([growth_bench.cpp](../../tests/bench/growth_bench.cpp), [growth.py](../../tests/bench/growth.py)).

![processor time by how many there are](growth.svg)

Nanoseconds of processor time, the least of five; of ranks that of the one in the middle, the less of two runs with devtrace and of two without. Flat is what costs {FLAT} times the cheapest at the most; the slope is that of the line through all, of the median. More threads or ranks than cores
take one another's turns and caches. A process may have 32 devices; 64 ranks are on four simulated machines of 16 devices. Each rank
does some work by the clock, also while it waits for a core: where many share two, that is presumably what grows.

| one of these; by how many | ns | slope | it is | as designed |
|---|---|---:|---|---|
{rows}
| memory | takes | goal |
|---|---:|---:|
{of_memory}"""


def picture(curves: dict, path: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "devtrace"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 4, figsize=(15, 6))
    for axis, (name, curve) in zip(axes.flat, CURVES.items(), strict=True):
        axis.plot(list(curves[name]), list(curves[name].values()), marker="o")
        axis.set_xscale("linear" if curve.straight else "log")
        axis.set_ylim(0, 1.2 * max(curves[name].values()))
        axis.set_xlabel(curve.what)
        axis.set_ylabel("ns")
        axis.set_title(curve.about, fontsize=9)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", type=Path)
    parser.add_argument("--write", action="store_true", help="write docs/evidence/growth.md and its picture")
    options = parser.parse_args()
    began = time.monotonic()
    curves, memory = benchmark((options.build / "bench/growth").resolve())
    curves = {name: {amount: ns for amount, ns in points.items() if amount >= CURVES[name].least} for name, points in curves.items()}
    devtrace = (options.build / "devtrace").resolve()
    for ranks in HOSTS:
        took = [[of_ranks(devtrace, ranks, more) for more in ([], ["--no-trace"])] for _ in range(ROUNDS)]
        for name, each in zip(("traced", "alone"), zip(*took, strict=True), strict=True):
            curves.setdefault(name, {})[ranks] = min(each)
    text = page(curves, memory, time.monotonic() - began)
    print(text)
    if options.write:
        (FOLDER / "growth.md").write_text(text, encoding="utf-8")
        picture(curves, FOLDER / "growth.svg")
    return 0


if __name__ == "__main__":
    sys.exit(main())
