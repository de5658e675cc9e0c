"""Runs a program for hours on two simulated devices, with devtrace and without it at the same time, and says by slope whether memory, descriptors,
threads and mappings grow.

    soak.py --build build --hours 1 --samples build/soak.csv [PROGRAM]      PROGRAM SECONDS: default mix.py

Exit code 1: something grows with devtrace, or a program failed; 2: it ran too short to tell.
"""

import argparse
import csv
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from slope import Allowed, growth

HERE = Path(__file__).resolve().parent
MIB = 1 << 20
# In the second half of the run.
QUANTITIES = {
    "resident": Allowed(wander=4 * MIB, per_hour=4 * MIB),
    "anonymous": Allowed(wander=4 * MIB, per_hour=4 * MIB),
    "descriptors": Allowed(wander=4, per_hour=4),
    "threads": Allowed(wander=4, per_hour=4),
    "mappings": Allowed(wander=64, per_hour=64),
}
BYTES = ("resident", "anonymous")


def sample(pid: int) -> dict[str, int] | None:
    """None once the process has ended."""
    process = Path("/proc", str(pid))
    try:
        status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
        return {
            "resident": int(status["VmRSS"].split()[0]) << 10,
            "anonymous": int(status["RssAnon"].split()[0]) << 10,
            "descriptors": len(os.listdir(process / "fd")),
            "threads": int(status["Threads"]),
            "mappings": (process / "maps").read_bytes().count(b"\n"),
        }
    except (OSError, KeyError):  # a process that has ended, but for its parent to notice, has no memory left
        return None


def child(command: int) -> int | None:
    """The program: `devtrace rehearse` waits for it."""
    try:
        children = Path("/proc", str(command), "task", str(command), "children").read_text().split()
    except OSError:
        return None
    return int(children[0]) if children else None


class Side:
    """One way of running it."""

    def __init__(self, name: str, flags: list[str], options, seconds: float, top: Path):
        self.name, self.samples, self.folder = name, [], top / name
        self.folder.mkdir()
        command = [options.build.resolve() / "devtrace", "rehearse", "--gpus", "2", *flags, "--", sys.executable, options.program.resolve(), seconds]
        env = {key: value for key, value in os.environ.items() if key not in ("LD_PRELOAD", "DEVTRACE_OPTIONS")}
        with open(self.folder / "out", "w") as out, open(self.folder / "err", "w") as err:
            self.process = subprocess.Popen(list(map(str, command)), cwd=self.folder, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err)

    def take(self, at: float) -> bool:
        if self.process.poll() is not None:
            return False
        if (program := child(self.process.pid)) and (found := sample(program)):
            self.samples.append((at, found))
        return True

    def growth(self, quantity: str):
        return growth([(at, found[quantity]) for at, found in self.samples])


def shown(quantity: str, value: float) -> str:
    return f"{value / MIB:.1f} MiB" if quantity in BYTES else f"{value:.1f}" if value % 1 else f"{value:.0f}"


def watch(sides: list[Side], interval: float) -> None:
    begin = time.monotonic()
    try:
        while any([side.take(time.monotonic() - begin) for side in sides]):
            time.sleep(interval)
    finally:
        for side in sides:
            if side.process.poll() is None:
                side.process.kill()
                side.process.wait()


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--build", type=Path, default=Path("build"))
    arguments.add_argument("--hours", type=float, default=1.0)
    arguments.add_argument("--samples", type=Path, help="where the samples go, as CSV")
    arguments.add_argument("program", type=Path, nargs="?", default=HERE / "mix.py")
    options = arguments.parse_args()
    seconds = options.hours * 3600
    with tempfile.TemporaryDirectory(prefix="soak-") as top:
        sides = [Side("devtrace", [], options, seconds, Path(top)), Side("without", ["--no-trace"], options, seconds, Path(top))]
        watch(sides, min(max(seconds / 600, 0.2), 10))
        if options.samples:
            with open(options.samples, "w", newline="") as file:
                writer = csv.writer(file)
                writer.writerow(["side", "seconds", *QUANTITIES])
                writer.writerows([side.name, f"{at:.2f}", *found.values()] for side in sides for at, found in side.samples)
        failed = [side for side in sides if side.process.returncode]
        for side in sides:
            print(f"{side.name}: exit code {side.process.returncode}, {len(side.samples)} samples; {(side.folder / 'out').read_text().strip()[-500:]}")
            if side in failed:
                print((side.folder / "err").read_text()[-2000:])
    if failed:
        return 1
    traced, bare = sides
    grown = []
    print(f"{'':<12} {'first':>12} {'last':>12} {'an hour':>14} {'without':>14} {'allowed':>14}")
    for quantity, allowed in QUANTITIES.items():
        try:
            here, there = traced.growth(quantity), bare.growth(quantity)
        except ValueError as error:
            print(f"soak: {error}")
            return 2
        may = allowed.per_hour + allowed.wander / here.hours
        word = "" if not here.over(allowed) else "grows" if not there.over(allowed) else "grows, without devtrace too"
        grown += [quantity] if word else []
        figures = [traced.samples[0][1][quantity], traced.samples[-1][1][quantity]], [here.per_hour, there.per_hour, may]
        print(f"{quantity:<12} " + " ".join(f"{shown(quantity, value):>12}" for value in figures[0]) + " " + " ".join(f"{shown(quantity, value):>14}" for value in figures[1]), word)
    print("grows: " + ", ".join(grown) if grown else "flat")
    return 1 if grown else 0


sys.exit(main())
