"""What tests have started ends with the process that runs them, however that ends: a program that was left would hold a core for good.

Programs are known by a variable in the environment that they started with, as `devtrace fix` knows its trials."""

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

MARK = "DEVTRACE_TESTS_OF"


def pytest_sessionstart() -> None:
    unmarked = {name: value for name, value in os.environ.items() if name != MARK}
    mark = f"{os.getpid()}-{os.urandom(4).hex()}"
    subprocess.Popen([sys.executable, "-I", __file__, str(os.getpid()), mark], env=unmarked, start_new_session=True,
                     stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    os.environ[MARK] = mark


def mark_of_one() -> str:
    """For a program that is to be ended alone, with all it starts, also in sessions of their own (torchrun's workers)."""
    return f"{os.environ.get(MARK, os.getpid())}.{os.urandom(4).hex()}"


def marked(mark: str) -> list[int]:
    """The processes that run and were started with that mark, or one below it."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            variables = (process / "environ").read_bytes().split(b"\0")
            if any(f"{each.decode(errors='replace')}.".startswith(f"{MARK}={mark}.") for each in variables):
                found.append(int(process.name))
        except OSError:  # it has ended, or is another user's
            pass
    return found


def end_marked(mark: str) -> None:
    for _ in range(100):  # one may be starting another
        left = marked(mark)
        if not left:
            return
        for each in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        time.sleep(0.02)


def watch(pid: int, mark: str) -> None:
    with contextlib.suppress(ProcessLookupError), os.fdopen(os.pidfd_open(pid)) as process:
        select.select([process], [], [])
    end_marked(mark)


if __name__ == "__main__":
    watch(int(sys.argv[1]), sys.argv[2])
