"""Drivers that go through PyTorch's operator database in processes of their own: one that an operator crashes or hangs is started again
behind it, and the operator is noted."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path


def read(path: Path) -> list[dict]:
    records = []
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                records.append(json.loads(line))
            except json.JSONDecodeError:
                pass  # the torn last line of a process that died
    return records


def how(code: int) -> str:
    """An exit code in words; `devtrace` gives 128 + the signal."""
    number = -code if code < 0 else code - 128 if code > 128 else 0
    return signal.strsignal(number) or f"signal {number}" if number else f"exit code {code}"


class Supervisor:
    """All operators through a driver, in as many processes as it takes. `crashed`: (operator, exit code)."""

    def __init__(self, driver: Path, folder: Path, command: list[str], flags: list[str], stalled_after_s: float, environment: dict | None = None):
        self.driver, self.folder, self.command, self.flags, self.stalled_after_s = driver, folder, command, flags, stalled_after_s
        self.environment = {**os.environ, **(environment or {})}
        self.records, self.crashed = [], []
        folder.mkdir()

    def start(self, arguments: list[str], attempt: int) -> tuple[int, list[dict]]:
        """Returns the driver's exit code (negative: a signal; -SIGKILL also where it made no progress) and its records."""
        out = self.folder / f"records-{attempt}.jsonl"
        with open(self.folder / f"output-{attempt}.txt", "wb") as output:
            process = subprocess.Popen(
                [*self.command, sys.executable, str(self.driver), "--out", str(out), *arguments],
                cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
            )  # fmt: skip
            size, since = 0, time.monotonic()
            while process.poll() is None:
                time.sleep(0.2)
                now = out.stat().st_size if out.exists() else 0
                if now != size:
                    size, since = now, time.monotonic()
                elif time.monotonic() - since > self.stalled_after_s:
                    os.killpg(process.pid, signal.SIGKILL)
            return process.returncode, read(out)

    def all(self, operators: list[str]) -> None:
        left = list(operators)
        for attempt in range(len(operators)):
            (self.folder / "operators.txt").write_text("\n".join(left))
            code, records = self.start(["--operators", str(self.folder / "operators.txt"), *self.flags], attempt)
            self.records += records
            if records and records[-1]["event"] == "done":
                return
            begun = [r["op"] for r in records if r["event"] == "begin"]
            if not begun:
                tail = (self.folder / f"output-{attempt}.txt").read_text(errors="replace")[-2000:]
                raise SystemExit(f"{self.driver.parent.name}: the driver did not start (exit code {code}):\n{tail}")
            self.crashed.append((begun[-1], code))
            left = left[left.index(begun[-1]) + 1 :]
            if not left:
                return


def side_by_side(work: list[tuple[Supervisor, list[str]]]) -> None:
    """Each supervisor with its operators, at the same time."""
    failures = []

    def go(one: Supervisor, operators: list[str]):
        try:
            one.all(operators)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=go, args=each) for each in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
