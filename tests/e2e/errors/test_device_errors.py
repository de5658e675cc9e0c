"""Every message of the catalogue that can be provoked on simulated devices: what the program raises, and that exactly one
finding names its operation and devices before the exception arrives."""

import importlib.metadata
import json
import re
import shutil
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from conftest import TOP
from golden import compare

sys.path[:0] = [str(TOP / "scripts"), str(TOP / "tests/workloads")]
from case_form import cases_in  # noqa: E402
from error_catalogue import catalogue  # noqa: E402

RUN = TOP / "tests/workloads/device_errors/run_programs.py"
ROWS = {row["id"]: row for row in catalogue.rows()}
BY_FILE = defaultdict(list)
for one in catalogue.programs():
    BY_FILE[one.file].append(one)


def numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version.split("+")[0])[:3]]


def is_of_the_past(row: dict) -> bool:
    """Does the library that is installed here no longer have the message?"""
    try:
        return row["until"] is not None and numbers(importlib.metadata.version(row["project"])) > numbers(row["until"])
    except importlib.metadata.PackageNotFoundError:
        return False


def what_is_wrong_with_the_message(program, answer: dict) -> str | None:
    row = ROWS[program.row]
    if is_of_the_past(row):  # another message of the catalogue has come into its place
        seen = any(re.search(other["pattern"], text) for other in ROWS.values() for text in answer["raised"])
    elif program.cut:
        seen = any(row["text"].split("…")[0].strip() in text for text in answer["raised"])
    else:
        seen = any(re.search(row["pattern"], text) for text in answer["raised"])
    return None if seen else f"{program.name}: raised {answer['raised'][:2]}, not {row['text'][:100]}"


def last_word(name: str) -> str:
    """`aten::add` and `torch.add` name one thing."""
    return re.split(r"::|\.", name)[-1]


def is_right(program, finding: dict) -> bool:
    operations = {last_word(name) for name in program.operation.split("|")}
    return last_word(finding.get("operation", "")) in operations and set(finding.get("devices", [])) == set(program.devices)


def what_is_wrong_with_the_finding(program, answer: dict) -> str | None:
    findings = [one for one in answer["findings"] if one["severity"] == "error"]
    if len(findings) == 1 and is_right(program, findings[0]):
        return None
    found = [(one.get("operation"), one.get("devices")) for one in findings]
    return f"{program.name}: findings {found}, not one of {program.operation} on {list(program.devices)}"


@pytest.mark.timeout(400)
@pytest.mark.parametrize("file", sorted(BY_FILE))
def test_messages(rehearse, tmp_path, file):
    programs = BY_FILE[file]
    files = [case.copy(tmp_path) for case in cases_in(RUN.parent / "programs" / file).values()]
    outcome = rehearse([shutil.copy(RUN, tmp_path), *files], options="text=0:html=0", timeout=380)
    assert outcome.code == 0, outcome.err[-3000:]
    expected_misses = catalogue.expected_misses()
    wrong, findings = [], {}
    for program in programs:
        path = Path(tmp_path) / "answers" / f"{program.name}.json"
        answer = json.loads(path.read_text(encoding="utf-8"))
        findings[program.name] = answer["findings"]
        if is_of_the_past(ROWS[program.row]) and not answer["raised"] and not answer["findings"]:
            continue  # nor does it refuse that any more
        if (problem := what_is_wrong_with_the_message(program, answer)) is not None:
            wrong.append(problem)
            continue
        problem = what_is_wrong_with_the_finding(program, answer)
        if problem is not None and program.name not in expected_misses:
            wrong.append(problem)
        if problem is None and program.name in expected_misses:
            wrong.append(f"{program.name}: is found now; take it out of {catalogue.MISSES.relative_to(TOP)}")
    assert not wrong, "\n".join(wrong)
    for name, found in findings.items():
        if found or name not in expected_misses:
            compare(f"message {name}", found, tmp_path)
