"""What a step of training costs while devtrace.start() watches it and under the preload, each beside the same step unwatched in the same process.

    python tests/bench/session_bench.py --build build

Steps are small, so that nearly all of their time is overhead; the devices are simulated. Processor time, medians over blocks that alternate.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent.parent
STEPS, BLOCKS = 30, 15


def measure() -> None:
    """In a process of its own."""
    import devtrace
    import torch

    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4)).to("cuda")
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    batch = torch.ones(8, 16)

    def block() -> float:
        begin = time.process_time()
        for _ in range(STEPS):
            optimizer.zero_grad()
            model(batch.to("cuda")).square().mean().backward()
            optimizer.step()
        return (time.process_time() - begin) / STEPS

    block()
    seconds = {"watched": [], "not": []}
    for _ in range(BLOCKS):
        if not devtrace.session.watching():
            devtrace.start(text=False, log_path=os.devnull)
        block()
        seconds["watched"].append(block())
        devtrace.stop()
        block()
        seconds["not"].append(block())
    print(json.dumps({key: statistics.median(values) for key, values in seconds.items()}))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure()
        return 0
    devtrace = (TOP / options.build / "devtrace").resolve()
    environ = {**os.environ, "PYTHONPATH": str(TOP / "python"), "DEVTRACE": str(devtrace)}
    for way, flags in {"start()": ["--no-trace"], "preloaded": ["--no-text", "--no-html", "--option", "log_path=/dev/null"]}.items():
        words = [devtrace, "rehearse", "--gpus", "1", *flags, "--", sys.executable, "-W", "ignore", __file__, "--measure"]
        done = subprocess.run([*map(str, words)], capture_output=True, text=True, cwd="/tmp", env=environ)
        if done.returncode:
            raise SystemExit(done.stderr)
        step = json.loads(done.stdout.splitlines()[-1])
        more = step["watched"] - step["not"]
        print(f"{way:<10} {step['not'] * 1e6:8.0f} us unwatched {step['watched'] * 1e6:8.0f} us watched {more * 1e6:+7.0f} us {step['watched'] / step['not']:6.3f} x")
    return 0


if __name__ == "__main__":
    sys.exit(main())
