"""Runs the programs in all ways, in turns, and counts their instructions."""

import dataclasses
import json
import os
import re
import resource
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
TIMES_AS_OFTEN = {"pass": 8}  # as the others: it is over at once


def environment(way: str, extra: dict | None = None) -> dict:
    quiet = "log_path=/dev/null:html=0:text=0"
    return {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONHASHSEED": "0", "DEVTRACE_OPTIONS": ":".join(filter(None, (quiet, WAYS[way].options))), **(extra or {})}


def preloaded(devtrace: Path, way: str) -> dict:
    return {"LD_PRELOAD": str(devtrace.parent / "libdevtrace.so")} if WAYS[way].options is not None else {}


def can_run(program: str, way: str) -> bool:
    """The others are Python's."""
    return not (WAYS[way].peer and PROGRAMS[program].binary)


def rehearsed(devtrace: Path, way: str) -> list:
    # Valgrind has no room for the memory that the devices would have.
    return [devtrace, "rehearse", "--no-values", "--memory", "1GiB", *(["--no-trace"] if WAYS[way].options is None else []), "--"]


class Child:
    """A program that waits for its turns."""

    def __init__(self, devtrace: Path, program: str, way: str, before: tuple = ()):
        binary = PROGRAMS[program].binary
        child = [devtrace.parent / binary] if binary else [sys.executable, HERE / "child.py", program, way]
        command = [*rehearsed(devtrace, way), *before, *child]
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
        if not can_run(program, way):
            continue
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


def processor_time_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)  # os.times() counts in hundredths of a second
    return used.ru_utime + used.ru_stime


def start_up(devtrace: Path, source: str, ways: list[str], rounds: int) -> dict[str, dict]:
    """Milliseconds of processor time of a whole process, children included."""
    taken = {way: [] for way in ways}
    for _ in range(rounds):
        for way in ways:
            if WAYS[way].peer:
                continue
            env = environment(way, preloaded(devtrace, way))
            before = processor_time_of_children()
            subprocess.run([sys.executable, "-c", source], env=env, check=True, cwd=tempfile.gettempdir())
            taken[way].append(1000 * (processor_time_of_children() - before))
    return {way: summary(each) for way, each in taken.items() if each}


# What devtrace's functions are for, by their names: the first that fits is taken.
PARTS = (
    ("provenance: who made a block", r"provenance"),
    ("stacks of Python", r"stacks::capture(_python|_another|_with_call)?\(|LastStack|python::|IdCache"),
    ("native stacks", r"stacks::"),
    ("launches: owners of what kernels are given", r"launch::|ownership|host_memory|untracked_memory|library_handles|AddressMap<devtrace::Extent>"),
    ("who chose the current device", r"device_history|cudaSetDevice|SetDevice"),
    ("Python's exceptions", r"speaks_of_devices|new_exception|look_at_text|exceptions"),
    ("placement", r"placement"),
    ("copies", r"copy::|traffic|Memcpy"),
    ("hooks that pass calls on", r""),
)


def by_part(dump: str) -> dict[str, int]:
    """Instructions of libdevtrace.so's functions themselves, by what they are for. Of a file of callgrind's, whose format names
    an object or a function once, with a number, and by its number from then on."""
    names, counted = {}, {name: 0 for name, _ in PARTS}
    library = function = ""
    of_call = False

    def name(kind: str, text: str) -> str:
        number, _, given = text.partition(" ")
        if given:
            names[kind, number] = given
        return names.get((kind, number), text)

    for line in dump.splitlines():
        key, equals, value = line.partition("=")
        if equals and key in ("ob", "cob", "fn", "cfn"):
            known = name(key[-2:], value)
            library, function = (known if key == "ob" else library), (known if key == "fn" else function)
        elif key == "calls":
            of_call = True  # the next line is what the called function took
        elif line[:1].isdigit() or line[:1] in ("+", "-", "*"):
            if not of_call and library.endswith("/libdevtrace.so"):
                part = next(part for part, pattern in PARTS if re.search(pattern, function))
                counted[part] += int(line.split()[-1])
            of_call = False
    return counted


@dataclasses.dataclass(frozen=True)
class Counted:
    all: float  # instructions a step
    parts: dict[str, float]  # of devtrace's own


COUNTED_TURNS = 5


def instructions(devtrace: Path, program: str, way: str) -> Counted | None:
    """By valgrind's callgrind, which counts in the steps alone, turn by turn: the turn in the middle counts. What comes by the clock, a look
    at the models or a record in the log, would come far too often, for valgrind is slow and the clock is not. None: valgrind cannot run it."""
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
        for _ in range(COUNTED_TURNS):
            child.turn(steps)
            control("--dump")  # and begins at zero again
        child.end()
        dumps = {path: int(re.search(r"^totals: (\d+)", path.read_text(errors="replace"), re.MULTILINE)[1]) for path in Path(folder).glob(f"{child.pid}.[0-9]*")}
        if len(dumps) < COUNTED_TURNS:
            return None
        middle = sorted(dumps, key=dumps.get)[COUNTED_TURNS // 2]
        dump = middle.read_text(errors="replace")
    return Counted(dumps[middle] / steps, {part: count / steps for part, count in by_part(dump).items()})


def start_up_instructions(devtrace: Path, source: str, way: str) -> int | None:
    """Of a whole process. None: there is no valgrind."""
    if not shutil.which("valgrind"):
        return None
    # The interpreter itself: pyenv's `python` is a script that looks for it.
    command = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null", os.path.realpath(sys.executable), "-c", source]
    search = os.pathsep.join(filter(None, sys.path[1:]))
    env = environment(way, {"PYTHONPATH": search, "PYTHONHASHSEED": "0", **preloaded(devtrace, way)})
    done = subprocess.run(command, env=env, capture_output=True, text=True, cwd=tempfile.gettempdir())
    found = re.search(r"I\s+refs:\s+([\d,]+)", done.stderr)
    return int(found[1].replace(",", "")) if found else None


def findings(devtrace: Path) -> dict[str, float]:
    """Milliseconds of processor time that devtrace adds: to the first refusal, to one more of another line, to one that was told before;
    and what PyTorch itself takes to refuse."""
    told, alone = findings_of_one(devtrace), findings_of_one(devtrace, "--no-trace")
    return told | {name: told[name] - alone[name] for name in ("first", "distinct", "again")} | {"itself": alone["again"]}


def findings_of_one(devtrace: Path, *options: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        command = [devtrace, "rehearse", "--no-values", *options, "--", sys.executable, HERE / "findings.py", folder]
        env = {**os.environ, "HF_HUB_OFFLINE": "1", "DEVTRACE_OPTIONS": "text=0"}
        answer = subprocess.run(command, env=env, check=True, capture_output=True, text=True, cwd=folder)
    return json.loads(answer.stdout)
