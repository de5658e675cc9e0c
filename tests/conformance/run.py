"""Recall and precision of refused-op findings on PyTorch's own operator database (op_db), on two simulated devices.

Two processes go through the same calls: one under devtrace, one without it, whose C++ stack traces are the judge of which operator was
refused. A process that an operator crashes or hangs is started again behind it, and the operator is reported.
Exit code 0: every refusal has exactly one right finding, and nothing else has any.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import silent
from judge import Verdicts, judge

from report import markdown, table

HERE = Path(__file__).resolve().parent
TOP = HERE.parent.parent
STALLED_AFTER_S = 120


def read(path: Path) -> list[dict]:
    records = []
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                records.append(json.loads(line))
            except json.JSONDecodeError:
                pass  # the torn last line of a process that died
    return records


class Run:
    """All operators through driver.py, in as many processes as it takes."""

    def __init__(self, name: str, folder: Path, command: list[str], environment: dict, flags: list[str]):
        self.folder = folder / name
        self.folder.mkdir()
        self.command = command
        self.environment = {**os.environ, **environment}
        self.flags = flags
        self.records = []
        self.crashed = []

    def start(self, arguments: list[str], attempt: int) -> tuple[int, Path]:
        """Returns the driver's exit code (negative: a signal; -SIGKILL also where it made no progress) and its records' path."""
        out = self.folder / f"records-{attempt}.jsonl"
        with open(self.folder / f"output-{attempt}.txt", "wb") as output:
            process = subprocess.Popen(
                [*self.command, sys.executable, str(HERE / "driver.py"), "--out", str(out), *arguments],
                cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
            )
            size, since = 0, time.monotonic()
            while process.poll() is None:
                time.sleep(0.2)
                now = out.stat().st_size if out.exists() else 0
                if now != size:
                    size, since = now, time.monotonic()
                elif time.monotonic() - since > STALLED_AFTER_S:
                    os.killpg(process.pid, signal.SIGKILL)
            return process.returncode, out

    def all(self, operators: list[str]) -> None:
        left = list(operators)
        for attempt in range(len(operators)):
            (self.folder / "operators.txt").write_text("\n".join(left))
            code, out = self.start(["--operators", str(self.folder / "operators.txt"), *self.flags], attempt)
            records = read(out)
            self.records += records
            if records and records[-1]["event"] == "done":
                return
            begun = [r["op"] for r in records if r["event"] == "begin"]
            if not begun:
                tail = (self.folder / f"output-{attempt}.txt").read_text(errors="replace")[-2000:]
                raise SystemExit(f"conformance: the driver did not start (exit code {code}):\n{tail}")
            self.crashed.append((begun[-1], code))
            left = left[left.index(begun[-1]) + 1 :]
            if not left:
                return


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build", help="folder with the devtrace command")
    parser.add_argument("--json", type=Path, help="write the verdicts there")
    parser.add_argument("--markdown", type=Path, help="write the page there")
    parser.add_argument("--silent", type=Path, help="write the page about operators that accept mixed devices there")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="only every N-th operator, its first sample, its first and last operand")
    parser.add_argument("--operators", nargs="*", help="only these")
    parser.add_argument("--keep", type=Path, help="folder for the processes' logs and records (must not exist)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or Path(scratch) / "conformance"
        folder.mkdir(parents=True)
        verdicts, records, seconds = run(options, folder)
    print(table(verdicts, seconds))
    if options.json:
        options.json.write_text(json.dumps(verdicts.__dict__, indent=1, default=sorted) + "\n")
    if options.markdown:
        options.markdown.write_text(markdown(verdicts))
    if options.silent:
        options.silent.write_text(silent.markdown(records))
    return 1 if verdicts.faults() or not verdicts.refused else 0


def run(options, folder: Path) -> tuple[Verdicts, list[dict], float]:
    began = time.monotonic()
    pair = Pair(folder, options)
    pair.all(options.operators)
    # Without values (which take three times as long) memory holds zeros, which some operators refuse: those run again with them.
    again = sorted(judge(pair.traced.records, pair.plain.records).not_judged)
    if again:
        (folder / "values").mkdir()
        other = Pair(folder / "values", options, values=True)
        other.all(again)
        for first, second in ((pair.traced, other.traced), (pair.plain, other.plain)):
            first.records = [r for r in first.records if r.get("op") not in again] + second.records
            first.crashed += second.crashed
    verdicts = judge(pair.traced.records, pair.plain.records)
    verdicts.crashed = [f"{op} under devtrace: {how(code)}" for op, code in pair.traced.crashed]
    verdicts.crashed += [f"{op} without devtrace: {how(code)}" for op, code in pair.plain.crashed]
    return verdicts, pair.traced.records, time.monotonic() - began


class Pair:
    """The same operators under devtrace and without it, side by side."""

    def __init__(self, folder: Path, options, values: bool = False):
        devtrace = [str((TOP / options.build / "devtrace").resolve()), "rehearse", "--gpus", "2", *([] if values else ["--no-values"])]
        flags = ["--samples", "1", "--ends"] if options.sample else []
        self.sample = options.sample or 1
        self.traced = Run("traced", folder, [*devtrace, "--"], {"DEVTRACE_OPTIONS": "dedupe=0:max_findings=0:text=0:html=0"}, flags)
        # PyTorch's symbolizer needs no source lines here, and addr2line would take minutes.
        self.plain = Run("plain", folder, [*devtrace, "--no-trace", "--"],
                         {"TORCH_SHOW_CPP_STACKTRACES": "1", "TORCH_DISABLE_ADDR2LINE": "1"}, flags)  # fmt: skip

    def all(self, operators: list[str] | None) -> None:
        if not operators:
            _, out = self.plain.start(["--list"], -1)
            operators = [r["op"] for r in read(out)][:: self.sample]
        failures = []

        def go(one: Run):
            try:
                one.all(operators)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=go, args=(one,)) for one in (self.traced, self.plain)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]
        if not all(r["tracer"] for r in self.traced.records if r["event"] == "start"):
            raise SystemExit("conformance: libdevtrace.so was not in the traced process")


def how(code: int) -> str:
    """An exit code in words; `devtrace` gives 128 + the signal."""
    number = -code if code < 0 else code - 128 if code > 128 else 0
    return signal.strsignal(number) or f"signal {number}" if number else f"exit code {code}"


if __name__ == "__main__":
    sys.exit(main())
