"""What devtrace said of each program, from the recorded findings: the page quotes it, and the figures are counted from it."""

import json

from . import catalogue

GOLDEN = catalogue.TOP / "tests/data/golden/findings.jsonl"


def by_program() -> dict[str, list[dict]]:
    """The errors of each program that has any."""
    answers: dict[str, list[dict]] = {}
    for one in map(json.loads, GOLDEN.read_text(encoding="utf-8").splitlines()):
        if one["program"].startswith("message ") and one["severity"] == "error":
            answers.setdefault(one["program"].removeprefix("message "), []).append(one)
    return answers
