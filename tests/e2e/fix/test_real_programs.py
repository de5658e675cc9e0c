"""`devtrace fix` on programs as people met them: systems (privateGPT: test_fix.py), and the corpus. Some of its cases are tried anew, and every
patch that `make corpus` has left is applied and run."""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import DEVTRACE, TOP, environment, execute, start
from nightly import first
from same_numbers import same

WORKLOADS = TOP / "tests/workloads"
sys.path.insert(0, str(WORKLOADS))
from case_form import cases_in  # noqa: E402
from corpus_score import PAGE, PARTS, last_line, page, recorded, score  # noqa: E402

spec = importlib.util.spec_from_file_location("five_systems", TOP / "tests/e2e/findings/test_five_systems.py")
five_systems = importlib.util.module_from_spec(spec)
spec.loader.exec_module(five_systems)


@pytest.mark.parametrize("system", first(1, five_systems.SYSTEMS), ids=lambda system: system.folder)
def test_a_verified_patch_of_a_system(system, tmp_path):
    folder = tmp_path / "tree"
    shutil.copytree(WORKLOADS / system.folder, folder, ignore=shutil.ignore_patterns("__pycache__"))
    before = {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
    out = tmp_path / "out"
    found = execute([DEVTRACE, "fix", "--output", out, "--", sys.executable, system.program], folder, environment(None), 600)
    assert found.code == 0, found.out + found.err
    assert "verified: with this change the program ran to its end in rehearsal" in found.out
    assert {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()} == before
    applied = subprocess.run(["git", "apply", out / "devtrace.patch"], cwd=folder, capture_output=True, text=True)
    assert applied.returncode == 0, applied.stderr
    repaired = start([system.program], folder)
    assert not repaired.findings
    cpu = execute([sys.executable, WORKLOADS / system.folder / system.program, "--cpu"], tmp_path, environment(None))
    same(five_systems.numbers(repaired), five_systems.numbers(cpu))
    assert not list(Path(folder).rglob("__pycache__"))


CASES = {part: cases_in(folder) for part, folder in PARTS.items()}
RECORDED = recorded()


@pytest.mark.parametrize("name", first(0, ["residual_split", "criterion_list", "data_parallel_partial"]))
def test_a_verified_fix_of_a_case(name):
    found = score("corpus", CASES["corpus"][name])
    assert found.found and found.operands and found.line and found.fix, found
    assert found.cause and not found.wrong_high, found


# In four parts, for the time limit of a test.
@pytest.mark.parametrize("quarter", first(0, range(4)))
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
    done = subprocess.run([sys.executable, WORKLOADS / f"{script}.py", "--help"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
