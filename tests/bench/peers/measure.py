"""Runs the programs in all ways, in turns, and counts their instructions."""

import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from programs import PROGRAMS
from ways import WAYS

HERE = Path(__file__).resolve().parent
START_UPS = {"pass": "pass", "import": "import torch"}


def environment(way: str, extra: dict | None = None) -> dict:
    quiet = "log_path=/dev/null:html=0:text=0"
    return {**os.environ, "HF_HUB_OFFLINE": "1", "DEVTRACE_OPTIONS": ":".join(filter(None, (quiet, WAYS[way].options))), **(extra or {})}


def rehearsed(devtrace: Path, way: str) -> list:
    # Valgrind has no room for the memory that the devices would have.
    return [devtrace, "rehearse", "--no-values", "--memory", "1GiB", *(["--no-trace"] if WAYS[way].options is None else []), "--"]


class Child:
    """A program that waits for its turns."""

    def __init__(self, devtrace: Path, program: str, way: str, before: tuple = ()):
        command = [*rehearsed(devtrace, way), *before, sys.executable, HERE / "child.py", program, way]
        self.process = subprocess.Popen(
            [str(word) for word in command],
            env=environment(way),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tempfile.gettempdir(),
        )
        while not (line := self.process.stdout.readline()).startswith("ready "):
            if not line:
                raise RuntimeError(f"{program} with {way}: {self.process.stderr.read()[-2000:]}")
        self.pid = int(line.split()[1])

    def turn(self, steps: int) -> float:
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def end(self) -> None:
        self.process.stdin.close()
        self.process.stdout.read()
        self.process.wait()


def summary(taken: list[float]) -> dict:
    return {"least": min(taken), "quartiles": statistics.quantiles(taken, n=4)}


def times(devtrace: Path, program: str, ways: list[str], rounds: int) -> dict[str, dict]:
    """Milliseconds of processor time a step: least and quartiles. All processes wait while one has its turn."""
    children, found = {}, {}
    for way in ways:
        try:
            children[way] = Child(devtrace, program, way)
        except RuntimeError as error:
            found[way] = {"failed": str(error).strip().splitlines()[-1]}
    taken = {way: [] for way in children}
    steps = PROGRAMS[program].steps
    for _ in range(rounds):
        for way, child in children.items():
            taken[way].append(1000 * child.turn(steps) / steps)
    for way, child in children.items():
        child.end()
        found[way] = summary(taken[way])
    return found


def start_up(devtrace: Path, source: str, ways: list[str], rounds: int) -> dict[str, dict]:
    """Milliseconds of processor time of a whole process, children included."""
    taken = {way: [] for way in ways}
    library = devtrace.parent / "libdevtrace.so"
    for _ in range(rounds):
        for way in ways:
            if WAYS[way].peer:
                continue
            env = environment(way, {"LD_PRELOAD": str(library)} if WAYS[way].options is not None else None)
            before = os.times()
            subprocess.run([sys.executable, "-c", source], env=env, check=True, cwd=tempfile.gettempdir())
            after = os.times()
            taken[way].append(1000 * (after.children_user + after.children_system - before.children_user - before.children_system))
    return {way: summary(each) for way, each in taken.items() if each}


def instructions(devtrace: Path, program: str, way: str) -> float | None:
    """Instructions a step, by valgrind's callgrind, which counts in the steps alone. None: valgrind cannot run it."""
    if not shutil.which("callgrind_control"):
        return None
    steps = PROGRAMS[program].steps
    with tempfile.TemporaryDirectory() as folder:
        valgrind = ("valgrind", "--tool=callgrind", "--instr-atstart=no", "--trace-children=yes", "--vgdb=yes", f"--callgrind-out-file={folder}/%p")
        try:
            child = Child(devtrace, program, way, valgrind)
        except RuntimeError as error:
            print(error, file=sys.stderr)
            return None
        child.turn(steps)

        def control(*words):
            subprocess.run(["callgrind_control", *words, str(child.pid)], check=True, capture_output=True)

        control("--instr=on")
        child.turn(steps)  # valgrind translates what it has not seen since
        control("--zero")
        child.turn(steps)
        control("--dump")
        child.end()
        dumps = sorted(Path(folder).glob(f"{child.pid}.*"))
        counted = [int(re.search(r"^totals: (\d+)", dump.read_text(), re.MULTILINE)[1]) for dump in dumps[:1]]
    return counted[0] / steps if counted else None
