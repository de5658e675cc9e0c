"""Values of a rehearsal on PyTorch's own operator database (op_db): every sample on cuda:0 against the same on the CPU.

A process that an operator crashes or hangs is started again behind it, and the operator is reported.
Exit code 0: at least 98 % of the samples are equal.
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

from report import markdown, summary

HERE = Path(__file__).resolve().parent
TOP = HERE.parent.parent
STALLED_AFTER_S = 240
ENOUGH = 0.98


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


class Worker:
    def __init__(self, folder: Path, options):
        self.folder = folder
        folder.mkdir()
        self.command = [str((TOP / options.build / "devtrace").resolve()), "rehearse", "--gpus", "1", "--no-trace", "--", sys.executable]
        self.flags = ["--samples", str(options.samples)] + (["--modes", *options.modes] if options.modes else [])
        self.records, self.crashed = [], []

    def start(self, arguments: list[str], attempt: int) -> tuple[int, list[dict]]:
        out = self.folder / f"records-{attempt}.jsonl"
        with open(self.folder / f"output-{attempt}.txt", "wb") as output:
            process = subprocess.Popen(
                [*self.command, str(HERE / "driver.py"), "--out", str(out), *arguments],
                cwd=self.folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
            )  # fmt: skip
            size, since = 0, time.monotonic()
            while process.poll() is None:
                time.sleep(0.2)
                now = out.stat().st_size if out.exists() else 0
                if now != size:
                    size, since = now, time.monotonic()
                elif time.monotonic() - since > STALLED_AFTER_S:
                    os.killpg(process.pid, signal.SIGKILL)
            return process.returncode, read(out)

    def run(self, operators: list[str]) -> None:
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
                raise SystemExit(f"rehearsal values: the driver did not start (exit code {code}):\n{tail}")
            self.crashed.append(f"{begun[-1]}: {how(code)}")
            left = left[left.index(begun[-1]) + 1 :]
            if not left:
                return


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build", help="folder with the devtrace command")
    parser.add_argument("--json", type=Path, help="write the verdicts there")
    parser.add_argument("--markdown", type=Path, help="write the page there")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only every N-th operator")
    parser.add_argument("--samples", type=int, default=0, help="samples of an operator and mode, 0 for all")
    parser.add_argument("--modes", nargs="*", help="float32, bfloat16, backward [all]")
    parser.add_argument("--operators", nargs="*", help="only these")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        workers = [Worker(Path(scratch) / str(i), options) for i in range(options.jobs)]
        operators = options.operators
        if not operators:
            operators = [r["op"] for r in workers[0].start(["--list"], -1)[1]][:: options.every]
        failures = []

        def go(worker, part):
            try:
                worker.run(part)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=go, args=(w, operators[i :: len(workers)])) for i, w in enumerate(workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]
    ended = sorted((r for w in workers for r in w.records if r["event"] == "end"), key=lambda r: operators.index(r["op"]))
    verdicts = {"operators": {r["op"]: r["modes"] for r in ended}, "crashed": sorted(c for w in workers for c in w.crashed)}
    print(summary(verdicts))
    if options.json:
        options.json.write_text(json.dumps(verdicts, indent=1) + "\n")
    if options.markdown:
        options.markdown.write_text(markdown(verdicts, (HERE / "page.md").read_text(encoding="utf-8")))
    samples, equal = totals(verdicts)
    return 0 if samples and equal >= ENOUGH * samples and not verdicts["crashed"] else 1


def totals(verdicts) -> tuple[int, int]:
    modes = [m for of_one in verdicts["operators"].values() for m in of_one.values()]
    return sum(m["samples"] for m in modes), sum(m["equal"] for m in modes)


if __name__ == "__main__":
    sys.exit(main())
