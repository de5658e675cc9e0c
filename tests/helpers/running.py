"""Programs that run and take orders, a line each on their standard input, so that devtrace can be attached to them meanwhile."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
from conftest import DEVTRACE, environment

# PyTorch at work in four threads: kernels, CPU tensors, small objects, exceptions; the rest is asked for.
SERVER = """
import os, sys, threading, torch

stop = False
steps = [0] * 4
weights = [torch.ones(32, 32, device=f"cuda:{number % 2}") for number in range(4)]
kept = [torch.ones(5) for _ in range(100)]


def work(number):
    while not stop:
        x = torch.randn(32, 32).to(weights[number].device)
        y = (x @ weights[number]).relu().sum()
        junk = [bytearray(1000) for _ in range(20)]
        try:
            raise ValueError("an ordinary error of the program, as they happen")
        except ValueError:
            steps[number] += 1


def fault(weight):
    late = torch.ones(32, device="cuda:1")
    try:
        weight[0] + late  # HERE
    except RuntimeError as error:
        return str(error)[:40]


def numpy(weight):
    try:
        weight.numpy()  # NUMPY
    except TypeError as error:
        return str(error)[:40]


threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
[thread.start() for thread in threads]
print("ready", os.getpid(), flush=True)
for line in sys.stdin:
    order = line.split()[0]
    if order == "fault":
        print("answer", fault(weights[0]), flush=True)
    elif order == "numpy":
        print("answer", numpy(weights[0]), flush=True)
    elif order == "forget":
        kept.clear()
        print("answer forgotten", flush=True)
    elif order == "steps":
        print("answer", *steps, flush=True)
    elif order == "sum":
        print("answer", float(weights[0].sum()) + float(weights[1].sum()), flush=True)
    elif order == "count":
        print("answer", len(os.listdir("/proc/self/fd")), sum(1 for _ in open("/proc/self/maps")), flush=True)
    elif order == "end":
        break
stop = True
[thread.join() for thread in threads]
print("ended", flush=True)
"""


class Running:
    """A program that prints `ready PID` and answers each order with a line `answer …`."""

    def __init__(self, command: list, folder: Path, env: dict):
        self.folder = folder
        self.process = subprocess.Popen(
            [str(part) for part in command], cwd=folder, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=open(folder / "stderr", "w"), text=True, start_new_session=True,
        )  # fmt: skip
        times = int(os.environ.get("DEVTRACE_ATTACH_TIMES", 0))
        self.guard = threading.Timer(250 + 20 * times, self.kill)  # a deadlock would hang the test
        self.guard.start()
        self.pid = int(self.line("ready")[0])

    def line(self, begin: str) -> list[str]:
        for line in self.process.stdout:
            if line.startswith(begin):
                return line.split()[1:]
        pytest.fail(f"no {begin!r}: ended with {self.process.wait()}\n{self.err[-3000:]}")

    def ask(self, order: str) -> list[str]:
        self.process.stdin.write(order + "\n")
        self.process.stdin.flush()
        return self.line("answer")

    def end(self) -> int:
        self.process.stdin.write("end\n")
        self.process.stdin.flush()
        self.line("ended")
        code = self.process.wait()
        self.guard.cancel()
        return code

    def kill(self) -> None:
        self.guard.cancel()
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    @property
    def err(self) -> str:
        return (self.folder / "stderr").read_text(errors="replace")

    @property
    def records(self) -> list[dict]:
        logs = sorted(self.folder.glob("devtrace-*.jsonl"))
        return [json.loads(line) for log in logs for line in log.read_text().split("\n")[:-1]]

    @property
    def findings(self) -> list[dict]:
        return [record for record in self.records if record["record"] == "finding"]


def python_server(folder: Path, source: str = SERVER, interpreter=sys.executable, preloaded=False, options=()) -> Running:
    (folder / "program.py").write_text(textwrap.dedent(source))
    trace = [] if preloaded else ["--no-trace"]
    return Running([DEVTRACE, "rehearse", "--gpus", 2, *options, *trace, "--", interpreter, "program.py"], folder, environment(None))


def command(*arguments, env=None, timeout=100, preexec_fn=None) -> subprocess.CompletedProcess:
    """devtrace with these arguments; what it said, and its exit code."""
    return subprocess.run(
        [str(DEVTRACE), *map(str, arguments)], capture_output=True, text=True, timeout=timeout, env=env or environment(None),
        check=False, preexec_fn=preexec_fn,
    )


class Looking:
    """devtrace attach or top, which stays: what it has said so far can be waited for."""

    def __init__(self, folder: Path, *arguments, out=None):
        self.says = [folder / f"{arguments[0]}-{name}" for name in ("out", "err")]
        with open(self.says[0], "w") as own, open(self.says[1], "w") as err:
            self.process = subprocess.Popen([str(DEVTRACE), *map(str, arguments)], env=environment(None), stdout=out or own, stderr=err)

    @property
    def out(self) -> str:
        return self.says[0].read_text()

    @property
    def err(self) -> str:
        return self.says[1].read_text()

    def wait(self, condition) -> None:
        wait_for(lambda: condition() or self.process.poll() is not None, 100)
        assert condition(), f"{self.out}\n{self.err}"

    def end(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(100)

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def wait_for(condition, seconds=20) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)


@pytest.fixture
def running():
    """What is put into this list is killed at the test's end."""
    started: list[Running] = []
    yield started
    for each in started:
        each.kill()


def has_ended(pid: int | str, seconds: float = 10) -> bool:
    """Also when nobody has asked for its exit code yet."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.05)
    return False
