"""Every case of tests/workloads/corpus and corpus_apart says what is right in the form that case_form.py reads, and its repair applies. That
they fail and are repaired as they say takes minutes: `tests/workloads/corpus_case.py` runs them."""

import sys

import pytest
from conftest import TOP

sys.path.insert(0, str(TOP / "tests/workloads"))
from case_form import cases_in  # noqa: E402
from corpus_case import APART, CORPUS, faults_of_form  # noqa: E402

CASES = {**cases_in(CORPUS), **cases_in(APART)}


@pytest.mark.parametrize("name", CASES)
def test_form(name):
    assert faults_of_form(CASES[name]) == []


@pytest.mark.parametrize("name", CASES)
def test_its_fix_changes_those_lines_alone(name, tmp_path):
    case = CASES[name]
    case.copy(tmp_path, repaired=True)
    places = {(repair.place.file, number) for repair in case.repairs for number in case.lines_at(repair.place)}
    changed = set()
    for file, text in case.files.items():
        after = (tmp_path / file).read_text().split("\n")
        changed |= {(file, i) for i, (old, new) in enumerate(zip(text.split("\n"), after, strict=True), 1) if old != new}
    assert changed and changed <= places


def test_no_two_cases_share_a_name_or_a_thread():
    assert len(CASES) == len(cases_in(CORPUS)) + len(cases_in(APART))
    threads = [case.first("thread") for case in CASES.values()]
    assert len(threads) == len(set(threads))


def test_faults_are_told(tmp_path):
    path = tmp_path / "wrong.py"
    says = {"operation": "add on gpu", "operands": "", "category": "bad luck", "line": "y =", "thread": "none"}
    path.write_text("".join(f"# {key}: {value}\n" for key, value in says.items()) + "x = 1\n")
    assert faults_of_form(cases_in(path)["wrong"]) == [
        "gpu is no device", "bad luck is no category", "no line of wrong.py holds: y =", "its thread has no address", "it has no repair",
    ]
