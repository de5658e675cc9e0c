"""What devtrace said of each program, kept from a run of them: the page quotes it, and the figures are counted from it."""

import json
import re
from pathlib import Path

from . import catalogue

SEEN = catalogue.FOLDER / "seen.jsonl"
MISSES_HEAD = """# Programs of which devtrace does not yet say what it should, and why. The test fails for one that is found by now, so that the list
# stays true. `scripts/device-errors seen FOLDER` writes the names.
"""


def last_word(name: str) -> str:
    """`aten::add` and `torch.add` name one thing."""
    return re.split(r"::|\.", name)[-1]


def errors(answer: dict) -> list[dict]:
    return [one for one in answer["findings"] if one["severity"] == "error"]


def is_right(program: catalogue.Program, findings: list[dict]) -> bool:
    if len(findings) != 1:
        return False
    operations = {last_word(name) for name in program.operation.split("|")}
    return last_word(findings[0].get("operation", "")) in operations and set(findings[0].get("devices", [])) == set(program.devices)


def keep(folder: Path) -> None:
    """`folder`: where tests/workloads/device_errors/run_programs.py left its answers."""
    lines, misses = [], []
    for program in catalogue.programs():
        answer = json.loads((folder / f"{program.name}.json").read_text(encoding="utf-8"))
        findings = errors(answer)
        right = is_right(program, findings)
        if not right:
            misses.append(program.name)
        line = {"program": program.name, "right": right, "findings": len(findings)}
        if len(findings) == 1:
            cause = findings[0].get("cause", {})
            line |= {
                "operation": findings[0].get("operation"),
                "devices": findings[0].get("devices", []),
                "category": cause.get("category"),
                "fix": cause.get("fix"),
            }
        lines.append(line)
    SEEN.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    why = catalogue.expected_misses()
    catalogue.MISSES.write_text(MISSES_HEAD + "".join(f"{name}: {why.get(name, 'not looked into')}\n" for name in sorted(misses)), encoding="utf-8")


def by_program() -> dict[str, dict]:
    return {line["program"]: line for line in map(json.loads, SEEN.read_text(encoding="utf-8").splitlines())}
