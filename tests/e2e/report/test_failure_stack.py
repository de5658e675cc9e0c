"""A failed check of the command itself shows its stack, and ends as without it."""

import signal
import subprocess
import time
from pathlib import Path

import pytest
from conftest import DEVTRACE


def waits(process: subprocess.Popen) -> bool:
    """It has set its handlers, and waits in a system call for its program."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    caught = int(status.partition("SigCgt:")[2].split()[0], 16)
    return bool(caught >> (signal.SIGABRT - 1) & 1) and "\nState:\tS" in status


@pytest.mark.parametrize("failure", [signal.SIGABRT, signal.SIGSEGV], ids=["abort", "bad address"])
def test_a_failure_shows_functions(tmp_path, failure):
    process = subprocess.Popen([DEVTRACE, "run", "--", "sleep", "3"], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    until = time.time() + 30
    while not waits(process) and time.time() < until:
        time.sleep(0.05)
    process.send_signal(failure)
    shown = process.communicate(timeout=60)[1]
    assert process.returncode == -failure
    assert shown.startswith(f"devtrace: failed by signal {int(failure)}:\n")
    assert " main " in shown and "devtrace::" in shown
