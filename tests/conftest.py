"""Whole programs on the real PyTorch over simulated devices: how to start them and how to read what devtrace left."""

import atexit
import functools
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest
from schedule import pytest_addoption, pytest_collection_modifyitems, pytest_runtest_logreport, pytest_runtest_makereport, pytest_sessionfinish  # noqa: F401
from torch_server import TorchServer
from watcher import MARK, end_marked, mark_of_one, pytest_sessionstart  # noqa: F401

TOP = Path(__file__).resolve().parent.parent
BUILD = TOP / os.environ.get("DEVTRACE_BUILD", "build")
LIBRARY = BUILD / "libdevtrace.so"
DEVTRACE = BUILD / "devtrace"
# Another Python, whose PyTorch the programs shall use: DEVTRACE_TEST_PYTHON=…/bin/python make e2e TESTS=tests/e2e/harm for one of CUDA 12.
PYTHON = os.environ.get("DEVTRACE_TEST_PYTHON", sys.executable)


@functools.lru_cache(maxsize=8)
def records_in(log: Path, _written: int, _bytes: int) -> list[dict]:
    """A log of hundreds of programs is asked for once by each of their tests. A killed process may leave a torn last line."""
    return [json.loads(line) for line in log.read_text(encoding="utf-8").split("\n")[:-1]]


@dataclass
class Outcome:
    """A program's end, and the logs and reports in its folder."""

    code: int
    out: str
    err: str
    folder: Path

    @property
    def logs(self) -> list[Path]:
        return sorted(self.folder.glob("devtrace-*.jsonl"))

    @property
    def records(self) -> list[dict]:
        """All complete lines of all logs."""
        return [record for log in self.logs for record in records_in(log, log.stat().st_mtime_ns, log.stat().st_size)]

    @property
    def findings(self) -> list[dict]:
        return [record for record in self.records if record["record"] == "finding"]

    @property
    def finding(self) -> dict:
        assert len(self.findings) == 1, f"{len(self.findings)} findings\n{self.err}"
        return self.findings[0]

    @property
    def pages(self) -> list[Path]:
        return sorted(self.folder.glob("devtrace-*.html"))

    @property
    def files(self) -> list[str]:
        """What lies in the folder besides the program itself."""
        return sorted(path.name for path in self.folder.iterdir() if path.name not in ("program.py", "__pycache__"))


def environment(options: str | None, extra: dict | None = None) -> dict:
    env = {key: value for key, value in os.environ.items() if key not in ("DEVTRACE_OPTIONS", "LD_PRELOAD")}
    # Every test in another way than its own: DEVTRACE_TEST_OPTIONS=backend=cupti make e2e TESTS=tests/e2e/harm
    if besides := os.environ.get("DEVTRACE_TEST_OPTIONS"):
        options = f"{besides}:{options}" if options else besides
    if options is not None:
        env["DEVTRACE_OPTIONS"] = options
    # OpenMP's threads would spin while they wait: a third of all the processor time of tests side by side.
    env.setdefault("OMP_WAIT_POLICY", "passive")
    # A shell's history of warnings about a missing NVIDIA driver is no part of what is compared.
    return {**env, "PYTHONDONTWRITEBYTECODE": "1", "HF_HUB_OFFLINE": "1", **(extra or {})}


def execute(command: list, folder: Path, env: dict, timeout: float = 150) -> Outcome:
    """A program that outlives `timeout` seconds fails the test and is killed with all that it has started."""
    mark = mark_of_one()
    process = subprocess.Popen([str(part) for part in command], cwd=folder, env={**env, MARK: mark}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True)
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        end_marked(mark)  # what is left in other sessions would keep the pipes open
        out, err = process.communicate()
        pytest.fail(f"still running after {timeout} s\n{out[-2000:]}\n{err[-4000:]}")
    return Outcome(process.returncode, out, err, folder)


# Folders of tests that look at processes themselves: how they start, fork, end, and what is loaded when.
OF_PROCESSES = ("attach", "harm", "hooks", "process")


@pytest.fixture
def rehearse(tmp_path, request):
    """rehearse(source, options=…): runs Python source (or a list of arguments to Python) on two simulated devices."""

    def run(program, options=None, folder=tmp_path, fresh=request.path.parent.name in OF_PROCESSES, **how) -> Outcome:
        return start(program, folder, options, fresh=fresh, **how)

    return run


def start(program, folder: Path, options=None, gpus=2, trace=True, env=None, timeout=150, python=PYTHON, fresh=False) -> Outcome:
    """`fresh`: in a process that starts with it and imports PyTorch itself, where the last frames of the native stack matter, too."""
    if isinstance(program, str):
        path = folder / "program.py"
        path.write_text(textwrap.dedent(program))
        program = [path]
    command = [DEVTRACE, "rehearse", "--gpus", gpus, *([] if trace else ["--no-trace"]), "--", python]
    whole = environment(options, env)
    program = [str(part) for part in program]
    forks = python == sys.executable and program[0].endswith(".py") and is_read_later(env or {}, whole.get("DEVTRACE_OPTIONS", ""))
    if fresh or not forks:
        return execute([*command, *program], folder, whole, timeout)
    code, out, err = server_of(trace, threading.get_ident()).run(program, folder, {**whole, "DEVTRACE_SIM_GPUS": str(gpus)}, timeout)
    if code is None:
        pytest.fail(f"still running after {timeout} s\n{out[-2000:]}\n{err[-4000:]}")
    return Outcome(code, out, err, folder)


# What is read after PyTorch was imported and its operators have true values, and not before.
READ_LATER = ("CUDA_LAUNCH_BLOCKING", "CUDA_VISIBLE_DEVICES", "DEVTRACE_SIM_", "HOME", "LOCAL_RANK", "RANK", "RANKS_END_AFTER", "TMPDIR", "WORLD_SIZE")
READ_BEFORE = ("DEVTRACE_SIM_TRITON", "DEVTRACE_SIM_VALUES", "DEVTRACE_SIM_VERBOSE")


def is_read_later(variables: dict, options: str) -> bool:
    later = all(name.startswith(READ_LATER) and name not in READ_BEFORE for name in variables)
    return later and not re.search("backend=|help=|verbose=1", options)


@functools.cache
def server_of(trace: bool, thread: int) -> TorchServer:
    """Each worker, and each of its threads, has its own; it ends with the worker. How many devices there are is read later."""
    server = TorchServer([DEVTRACE, "rehearse", "--gpus", 1, *([] if trace else ["--no-trace"]), "--", PYTHON], environment(None))
    atexit.register(server.close)
    return server


RUN_SNIPPETS = """
import runpy, sys, traceback
for path in sys.argv[1:]:
    print("==", path, flush=True)
    try:
        runpy.run_path(path, run_name="__main__")
    except Exception:
        traceback.print_exc(file=sys.stdout)
"""


def start_snippets(snippets: dict[str, str], folder: Path, options=None, trace=True, env=None, gpus=2, fresh=False) -> tuple[Outcome, dict[str, str]]:
    """Many small programs in one process, each in a file `<name>.py` of its own (importing PyTorch takes seconds); an error ends one
    and is printed. Returns the outcome and what each one printed."""
    names = {name: re.sub(r"\W+", "-", name) + ".py" for name in snippets}
    for name, source in snippets.items():
        (folder / names[name]).write_text(source, encoding="utf-8")
    (folder / "program.py").write_text(RUN_SNIPPETS)
    outcome = start(["program.py", *names.values()], folder, options, gpus=gpus, trace=trace, env=env, fresh=fresh)
    parts = re.split(r"^== (.+)\n", outcome.out, flags=re.MULTILINE)[1:]
    printed = dict(zip(parts[::2], parts[1::2]))
    return outcome, {name: printed.get(file, "") for name, file in names.items()}


def findings_of(outcome: Outcome, name: str) -> list[dict]:
    """The findings whose innermost frame with a file of the test's folder lies in that snippet."""
    file = re.sub(r"\W+", "-", name) + ".py"
    there = {path.name for path in outcome.folder.iterdir()}
    names = ((finding, (frame["file"].rpartition("/")[2] for frame in finding["python"])) for finding in outcome.findings)
    return [finding for finding, files in names if next((each for each in files if each in there), None) == file]


@pytest.fixture
def preload(tmp_path):
    """preload(command, options=…): runs any command with libdevtrace.so preloaded; `library=None` runs it bare."""

    def run(command, options=None, library=LIBRARY, folder=tmp_path) -> Outcome:
        return execute(command, folder, environment(options, {"LD_PRELOAD": str(library)} if library else {}), 60)

    return run


def line_of(outcome: Outcome, text: str, file: str = "program.py") -> int:
    """1-based number of the file's only line that holds `text`."""
    lines = (outcome.folder / file).read_text().splitlines()
    numbers = [number for number, line in enumerate(lines, 1) if text in line]
    assert len(numbers) == 1, f"{text!r} is on lines {numbers}"
    return numbers[0]


def only(outcome: Outcome, kind: str) -> dict:
    """The outcome's only finding, which is of that kind."""
    assert [finding["kind"] for finding in outcome.findings] == [kind], outcome.err[-3000:]
    return outcome.findings[0]


def operand(finding: dict, device: str) -> dict:
    """The finding's only operand on that device."""
    found = [one for one in finding["operands"] if one.get("device") == device]
    assert len(found) == 1, finding["operands"]
    return found[0]


def all_names(one: dict) -> list[str]:
    return [one.get("name"), *[name["name"] for name in one.get("names", [])]]


def traffic(outcome):
    """What the log says of copies: the last record of each call site."""
    return list({record["id"]: record for record in outcome.records if record["record"] == "traffic"}.values())


def by_line(outcome, **where):
    """(from, to): (bytes, copies), by the text of the innermost line of the program."""
    lines = (outcome.folder / "program.py").read_text().splitlines()
    found = {}
    for record in traffic(outcome):
        line = next(frame["line"] for frame in record["python"] if frame["file"].endswith("program.py"))
        tag = re.search(r"# (\w+)$", lines[line - 1])
        key = (tag.group(1) if tag else lines[line - 1].strip(), record["from"], record["to"])
        bytes_, copies = found.get(key, (0, 0))
        found[key] = (bytes_ + record["bytes"], copies + record["copies"])
    return found
