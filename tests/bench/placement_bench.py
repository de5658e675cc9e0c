"""What one look at where the models lie costs (tracker/placement/placement.cpp). That is processor time of the look
that Python's end asks for, less that of the same end without it. And the part of a working program's time that all looks take together.

    python tests/bench/placement_bench.py [ROUNDS]"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent.parent
DEVTRACE = TOP / os.environ.get("DEVTRACE_BUILD", "build") / "devtrace"

PROGRAM = """
import atexit, gc, json, sys, time
import torch
objects, modules, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
heap = [[number] for number in range(max(0, objects - len(gc.get_objects()) - 8 * modules))]
model = torch.nn.Sequential(*(torch.nn.Linear(2, 2) for _ in range(modules))).to("cuda:0")
torch.ones(1, device="cuda:0").add(1)
for _ in range(1000):  # the first look comes between two instructions
    pass
end, spent = time.time() + seconds, time.thread_time()
steps = 0
while time.time() < end:
    torch.ones(8, device="cuda:0").add(1)
    steps += 1
spent = time.thread_time() - spent
for _ in range(3 if seconds == 0 else 0):  # something happens after the last look
    torch.ones(1, device="cuda:0").add(1)
tracked = len(gc.get_objects())
began = time.thread_time()
atexit._run_exitfuncs()
print(json.dumps({"look": time.thread_time() - began, "objects": tracked, "step": spent / max(1, steps)}))
"""


def measure(objects, modules, seconds, placement):
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "program.py").write_text(PROGRAM)
        command = [DEVTRACE, "rehearse", "--gpus", "1", "--", sys.executable, "program.py", str(objects), str(modules), str(seconds)]
        done = subprocess.run(command, cwd=folder, env={**os.environ, "DEVTRACE_OPTIONS": f"placement={placement}"}, capture_output=True, text=True, check=True)
        return json.loads(done.stdout)


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    print("| objects of Python's collector | modules | one look |\n|---:|---:|---:|")
    for objects, modules in ((0, 1), (0, 500), (1_000_000, 500)):
        on, off = ([measure(objects, modules, 0, placement) for _ in range(rounds)] for placement in (1, 0))
        look = statistics.median(each["look"] for each in on) - statistics.median(each["look"] for each in off)
        print(f"| {on[0]['objects']:,} | {modules} | {1000 * look:.0f} ms |", flush=True)
    with_it, without = ([measure(0, 500, 20, placement)["step"] for _ in range(rounds)] for placement in (1, 0))
    print(f"\na step of 20 seconds of them, with and without: {min(with_it) / min(without):.3f}")


if __name__ == "__main__":
    main()
