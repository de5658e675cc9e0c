"""Every case of tests/workloads/cases is a defect, nearly always that of a public thread, rebuilt
small from its operation and cause (not from its code). It says above itself which verdict it must get (case_form.py).
Its record is what it was before (golden.py). Those of corpus and corpus_apart are held to the form, and their repairs apply. That
they fail and are repaired as they say takes minutes: `tests/workloads/corpus_case.py` runs them."""

import json
import re
import sys
from pathlib import Path

import pytest
from conftest import TOP, all_names, start
from golden import compare

sys.path.insert(0, str(TOP / "tests/workloads"))
from case_form import cases_in  # noqa: E402
from cases_page import CASES, RUN, case_row, run  # noqa: E402
from corpus_case import APART, CORPUS, faults_of_form  # noqa: E402


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    return run(tmp_path_factory.mktemp("cases"))


@pytest.mark.parametrize("name", CASES)
def test_case(ran, name):
    findings = ran.of(name)
    assert len(findings) == 1
    finding, case = findings[0], CASES[name]
    assert (f"/{name}.py refused\n" in ran.out) == ("silent" not in case.says), ran.err[-3000:]
    cause = finding["cause"]
    said = json.dumps({key: cause.get(key) for key in ("category", "confidence", "because", "fix")}, ensure_ascii=False, indent=1)
    assert cause["category"] == case.first("category"), said
    for each in case.list_of("operands"):
        operand, device = each.rsplit(" ", 1)
        there = [one for one in finding["operands"] if one["device"] == device]
        assert any(operand in all_names(one) for one in there), finding["operands"]
    if "fails" in case.says:
        mine = next(frame for frame in finding["python"] if frame.get("project"))
        assert mine["source"].strip() == case.first("fails")
    if "fix" in case.says:
        assert cause.get("fix") == case.fix, said
    compare(f"case {name}", findings, ran.folder)


def test_the_page_says_the_same(ran):
    # How sure it is may hang on times that the kernel's clock tells apart in one run and not in another.
    def without_confidence(row):
        return re.sub(r" \| (high|medium|low) \| ", " | ", row)

    page = [without_confidence(line) for line in (TOP / "docs/evidence/cases.md").read_text().splitlines()]
    rows = [without_confidence(case_row(case, ran.of(name)[0])) for name, case in CASES.items()]
    assert [row for row in rows if row not in page] == [], "make cases-page"
    assert len([line for line in page if line.startswith("| ") and not line.startswith("| case")]) == len(rows) + 5


def test_the_fixes_make_them_run(ran, tmp_path):
    """Each fix that names a line of its case is put there; what is refused then is refused elsewhere, or not at all."""
    copies, lines = [], {}
    for name, case in CASES.items():
        cause = ran.of(name)[0]["cause"]
        if Path(cause.get("file", "")).name != case.main or not cause.get("fix") or "alone" in case.says:
            continue
        source = case.files[case.main].split("\n")
        old = source[cause["line"] - 1]
        indent = old[: len(old) - len(old.lstrip())]
        source[cause["line"] - 1] = "\n".join(indent + line for line in cause["fix"].split("\n"))
        copies.append(tmp_path / f"{name}.py")
        copies[-1].write_text("\n".join(source))
        lines[copies[-1]] = cause["line"]
    assert len(copies) > len(CASES) / 2
    (tmp_path / "program.py").write_text(RUN.replace("RuntimeError", "Exception"))
    outcome = start(["program.py", *copies], tmp_path)
    again = [line.split()[0] for line in outcome.out.splitlines() if line.endswith(" refused")]
    assert again == [] and outcome.findings == [], outcome.err[-3000:]


OF_THE_CORPUS = {**cases_in(CORPUS), **cases_in(APART)}


@pytest.mark.parametrize("name", OF_THE_CORPUS)
def test_form(name):
    assert faults_of_form(OF_THE_CORPUS[name]) == []


@pytest.mark.parametrize("name", OF_THE_CORPUS)
def test_its_fix_changes_those_lines_alone(name, tmp_path):
    case = OF_THE_CORPUS[name]
    case.copy(tmp_path, repaired=True)
    places = {(repair.place.file, number) for repair in case.repairs for number in case.lines_at(repair.place)}
    changed = set()
    for file, text in case.files.items():
        after = (tmp_path / file).read_text().split("\n")
        changed |= {(file, i) for i, (old, new) in enumerate(zip(text.split("\n"), after, strict=True), 1) if old != new}
    assert changed and changed <= places


def test_no_two_cases_share_a_name_or_a_thread():
    assert len(OF_THE_CORPUS) == len(cases_in(CORPUS)) + len(cases_in(APART))
    threads = [case.first("thread") for case in OF_THE_CORPUS.values() if "thread" in case.says]
    assert len(threads) == len(set(threads))


def test_faults_are_told(tmp_path):
    path = tmp_path / "wrong.py"
    says = {"operation": "add on gpu", "operands": "", "category": "bad luck", "line": "y =", "thread": "none"}
    path.write_text("".join(f"# {key}: {value}\n" for key, value in says.items()) + "x = 1\n")
    assert faults_of_form(cases_in(path)["wrong"]) == [
        "gpu is no device", "bad luck is no category", "no line of wrong.py holds: y =", "its thread has no address", "it has no repair",
    ]
