"""What pytest's JUnit files say of each test, and why one fails that the same test without devtrace does not explain."""

import re
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


# What the message has in it (a regular expression), and the reason as the page says it. The first row that fits stands.
REASONS = (
    (r"NCCL between processes is not simulated", "it wants NCCL between processes, which a rehearsal refuses"),
    (r"huggingface\.co|LocalEntryNotFound|OfflineModeIsEnabled|Can't load (the configuration|tokenizer)|offline mode|couldn't connect to|Cannot (find|reach)",
     "it wants a model or data from the Hugging Face hub, and runs without a network"),
    (r"OutOfMemoryError.*Tried to allocate \d\d[.\d]* GiB", "it fills a device, and the host that runs the rehearsal has less memory than that"),
    (r"package must be available|No module named|requires the `?\w+`? library|ImportError", "it wants a package that is not there"),
    (r"Timeout(Expired| )|Failed: Timeout", "it took longer than the limit"),
    (r"fixture '\w+' not found", "it wants a fixture of a conftest.py that the sdist lacks"),
    (r"No such file or directory", "it wants a file that the sdist lacks"),
)  # fmt: skip
UNEXPLAINED = "not explained"


def reason(message: str) -> str:
    return next((why for pattern, why in REASONS if re.search(pattern, message)), UNEXPLAINED)
