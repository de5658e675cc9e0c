"""Runs a program for hours on two simulated devices, with devtrace and without it at the same time, and says by slope whether memory, descriptors,
threads and mappings grow.

    soak.py --build build --hours 1 --samples build/soak.csv [--attach SECONDS] [PROGRAM]      PROGRAM SECONDS: default mix.py

With --attach it is ranks.py that runs without devtrace. That is attached each so many seconds and detached half as many later, with `devtrace top`
open all the time. What the program computes has to be the same.
Exit code 1: something grows with devtrace, a program failed or computed something else; 2: it ran too short to tell.
"""

import argparse
import csv
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
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


def programs(command: int, folder: Path) -> list[int]:
    """The program, for which `devtrace rehearse` waits; of several processes those whose numbers it wrote."""
    ranks = folder / "ranks"
    place = ranks if ranks.exists() else Path("/proc", str(command), "task", str(command), "children")
    try:
        children = place.read_text().split()
    except OSError:
        return []
    return [int(each) for each in (children if place is ranks else children[:1])]


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
        found = [sample(program) for program in programs(self.process.pid, self.folder)]
        if found and all(found):
            self.samples.append((at, {key: sum(each[key] for each in found) for key in QUANTITIES}))
        return True

    def growth(self, quantity: str):
        return growth([(at, found[quantity]) for at, found in self.samples])


def shown(quantity: str, value: float) -> str:
    return f"{value / MIB:.1f} MiB" if quantity in BYTES else f"{value:.1f}" if value % 1 else f"{value:.0f}"


class Attaching(threading.Thread):
    """`devtrace attach` and `devtrace detach` by turns on all of a side's processes, until shortly before they end, with `devtrace top` open."""

    def __init__(self, side: Side, devtrace: Path, pause: float, seconds: float):
        super().__init__()
        self.side, self.devtrace, self.pause, self.until, self.answers = side, devtrace, pause, time.monotonic() + seconds - pause, Counter()

    def start_command(self, *arguments) -> subprocess.Popen:
        with open(self.side.folder / "attaching", "a") as file:
            command = [self.devtrace, *map(str, arguments), programs(self.side.process.pid, self.side.folder)[0]]
            return subprocess.Popen(list(map(str, command)), cwd=self.side.folder, stdin=subprocess.DEVNULL, stdout=file, stderr=file)

    def run(self) -> None:
        while not (self.side.folder / "ranks").exists():
            time.sleep(1)
        top = self.start_command("top", "--children", "--no-html")
        while time.monotonic() < self.until and top.poll() is None:
            for arguments in (("attach", "--no-wait", "--children", "--no-html"), ("detach", "--children")):
                time.sleep(self.pause / 2)
                self.answers[f"{arguments[0]} {self.start_command(*arguments).wait()}"] += 1
        top.send_signal(signal.SIGINT)
        self.answers[f"top {top.wait()}"] += 1


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


def same_parameters(sides: list[Side]) -> bool:
    """As far as both have come."""
    for rank in ("parameters-0", "parameters-1"):
        here, there = ((side.folder / rank).read_text().split() for side in sides)
        both = min(len(here), len(there))
        if both == 0 or here[:both] != there[:both]:
            print(f"{rank} differ: {here[:both]}, without: {there[:both]}")
            return False
    print(f"parameters are the same, compared {both} times")
    return True


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--build", type=Path, default=Path("build"))
    arguments.add_argument("--hours", type=float, default=1.0)
    arguments.add_argument("--samples", type=Path, help="where the samples go, as CSV")
    arguments.add_argument("--attach", type=float, help="seconds from one attaching to the next")
    arguments.add_argument("program", type=Path, nargs="?")
    options = arguments.parse_args()
    options.program = options.program or HERE / ("ranks.py" if options.attach else "mix.py")
    seconds = options.hours * 3600
    with tempfile.TemporaryDirectory(prefix="soak-") as top:
        sides = [Side(name, flags, options, seconds, Path(top)) for name, flags in (("devtrace", ["--no-trace"] * bool(options.attach)), ("without", ["--no-trace"]))]
        attaching = Attaching(sides[0], options.build.resolve() / "devtrace", options.attach, seconds) if options.attach else None
        if attaching:
            attaching.start()
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
        if attaching:
            attaching.join()
            print("attaching:", dict(attaching.answers))
            if any(not answer.endswith(" 0") for answer in attaching.answers):
                print((sides[0].folder / "attaching").read_text()[-2000:])
                return 1
            if not failed and not same_parameters(sides):
                return 1
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
