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

# Each program in a child of its own, of a process that has imported PyTorch: seconds saved for each.
RUN_EACH = """
import os, runpy, sys
import torch

for main in sys.argv[1:]:
    print("==", main, flush=True)
    if os.fork() == 0:
        folder = os.path.dirname(main)
        os.chdir(folder)
        sys.argv[:], sys.path[0] = [main], folder
        code = 1
        try:
            runpy.run_path(main, run_name="__main__")
            code = 0
        except SystemExit as end:
            code = end.code or 0
        finally:
            sys.stdout.flush()
            os._exit(code)
    os.wait()
"""


@pytest.mark.parametrize("name", ["residual_split", "criterion_list", "data_parallel_partial"])
def test_a_verified_fix(name):
    found = score("corpus", CASES["corpus"][name])
    assert found.found and found.operands and found.line and found.fix, found
    assert found.cause and not found.wrong_high, found


# In four parts, for the time limit of a test.
@pytest.mark.parametrize("quarter", range(4))
def test_recorded_patches_run(quarter, tmp_path):
    mains, wanted = [], {}
    for each in [each for each in RECORDED if each.fix][quarter::4]:
        case = CASES[each.part][each.name]
        folder = tmp_path / each.part.replace(" ", "-") / each.name
        folder.mkdir(parents=True)
        main = case.copy(folder)
        applied = subprocess.run(["git", "apply", "-"], cwd=folder, input=each.patch, capture_output=True, text=True)
        assert applied.returncode == 0, f"{each.name}: make corpus\n{applied.stderr}"
        mains.append(main)
        wanted[str(main)] = each.prints
    (tmp_path / "program.py").write_text(RUN_EACH)
    outcome = start(["program.py", *mains], tmp_path, timeout=600)
    parts = outcome.out.split("== ")[1:]
    printed = {part.split("\n")[0]: last_line(part) for part in parts}
    assert {Path(main).parent.name: printed.get(main) for main in wanted} == {Path(main).parent.name: each for main, each in wanted.items()}, outcome.err[-3000:]
    assert not outcome.findings


def test_the_page_says_what_was_measured():
    assert PAGE.read_text(encoding="utf-8") == page(RECORDED)
    assert {each.name for each in RECORDED if each.part == "corpus"} <= set(CASES["corpus"])
