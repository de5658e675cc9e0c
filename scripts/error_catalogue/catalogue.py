"""The table of messages, and what has been decided of each."""

import json
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent.parent
FOLDER = TOP / "tests/workloads/device_errors"
MESSAGES = FOLDER / "messages.jsonl"
# Messages that no source holds as text; by hand, in the form of MESSAGES.
MORE = FOLDER / "more_messages.jsonl"
MISSES = FOLDER / "expected_misses.txt"
# The row of a program that names none.
SAME_DEVICE = "torch-expected-all-tensors-to-be-on-the-same-device"

sys.path += [str(FOLDER), str(FOLDER.parent)]
import reasons  # noqa: E402
from case_form import cases_in  # noqa: E402


@dataclass(frozen=True)
class Program:
    """What a program says of itself (case_form.py)."""

    name: str
    row: str
    operation: str
    devices: tuple[str, ...]
    cut: bool  # its message ends at the index of device 0, which PyTorch writes as a character
    file: str
    source: str


def write_messages(rows: list[dict]) -> None:
    MESSAGES.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


@cache
def rows() -> list[dict]:
    return [json.loads(line) for path in (MORE, MESSAGES) for line in path.read_text(encoding="utf-8").splitlines()]


@cache
def programs() -> list[Program]:
    return [
        Program(case.name, case.first("message", SAME_DEVICE), case.operation, tuple(case.devices), "cut" in case.says, path.name, case.program)
        for path in sorted((FOLDER / "programs").glob("*.py")) for case in cases_in(path).values()
    ]


def expected_misses() -> dict[str, str]:
    """Programs of which devtrace does not say all, and why not."""
    lines = MISSES.read_text(encoding="utf-8").splitlines()
    return dict(line.split(": ", 1) for line in lines if line and not line.startswith("#"))


@cache
def reason_of(row_id: str) -> str | None:
    row = next(row for row in rows() if row["id"] == row_id)
    for rule in reasons.REASONS:
        if rule.holds(row):
            return rule.why
    return None


def decided() -> tuple[dict[str, list[Program]], dict[str, str]]:
    """Row → its programs, and row → why there is none."""
    by_row: dict[str, list[Program]] = {}
    for program in programs():
        by_row.setdefault(program.row, []).append(program)
    why = {row["id"]: reason_of(row["id"]) for row in rows() if row["id"] not in by_row}
    return by_row, {row: reason for row, reason in why.items() if reason}


def undecided() -> list[dict]:
    by_row, why = decided()
    return [row for row in rows() if row["id"] not in by_row and row["id"] not in why]
