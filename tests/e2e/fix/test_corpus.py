"""The corpus: `devtrace fix` on some of its cases, and every patch that `make corpus` has left, applied and run."""

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import TOP, start

sys.path.insert(0, str(TOP / "tests/workloads"))
from case_form import cases_in  # noqa: E402
from corpus_score import PAGE, PARTS, last_line, page, recorded, score  # noqa: E402

CASES = {part: cases_in(folder) for part, folder in PARTS.items()}
RECORDED = recorded()


@pytest.mark.parametrize("name", ["residual_split", "criterion_list", "data_parallel_partial"])
def test_a_verified_fix(name):
    found = score("corpus", CASES["corpus"][name])
    assert found.found and found.operands and found.line and found.fix, found
    assert found.cause and not found.wrong_high, found


# In four parts, for the time limit of a test.
@pytest.mark.parametrize("quarter", range(4))
def test_recorded_patches_run(quarter, tmp_path):
    wrong = []
    for each in [each for each in RECORDED if each.fix][quarter::4]:
        case = CASES[each.part][each.name]
        folder = tmp_path / each.part.replace(" ", "-") / each.name
        folder.mkdir(parents=True)
        main = case.copy(folder)
        applied = subprocess.run(["git", "apply", "-"], cwd=folder, input=each.patch, capture_output=True, text=True)
        assert applied.returncode == 0, f"{each.name}: make corpus\n{applied.stderr}"
        outcome = start([main], Path(main).parent)
        if last_line(outcome.out) != each.prints or outcome.findings:
            wrong.append(f"{each.name}: {last_line(outcome.out)!r}, not {each.prints!r}; {len(outcome.findings)} findings\n{outcome.err[-1000:]}")
    assert not wrong, "\n".join(wrong)


def test_the_page_says_what_was_measured():
    assert PAGE.read_text(encoding="utf-8") == page(RECORDED)
    assert {each.name for each in RECORDED if each.part == "corpus"} <= set(CASES["corpus"])


@pytest.mark.parametrize("script", ["cases_page", "corpus_case", "corpus_score"])
def test_the_scripts_start_by_themselves(script):
    done = subprocess.run([sys.executable, TOP / f"tests/workloads/{script}.py", "--help"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
