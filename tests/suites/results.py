"""What pytest's JUnit files say of each test."""

from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


@dataclass(frozen=True)
class Result:
    name: str  # class and test
    outcome: str
    message: str = ""
    text: str = ""  # with its traceback


def read(junit: Path) -> list[Result]:
    """Empty where pytest did not get so far."""
    if not junit.exists():
        return []
    return [one(case) for case in ElementTree.parse(junit).iter("testcase")]


def one(case) -> Result:
    name = f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}"
    for tag, outcome in (("failure", FAILED), ("error", FAILED), ("skipped", SKIPPED)):
        found = case.find(tag)
        if found is not None:
            return Result(name, outcome, found.get("message") or "", found.text or "")
    return Result(name, PASSED)
