"""What the page of other projects' suites says of JUnit files; the suites themselves run by `make suites`."""

import os
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import suite_runner  # noqa: E402
from suite_runner import FAILED, PASSED, SKIPPED, UNEXPLAINED, Runner, read, reason  # noqa: E402
from suites import SUITES, Suite  # noqa: E402
from suites_page import SAME_WITHOUT, markdown  # noqa: E402

JUNIT = """<testsuites><testsuite>
<testcase classname="tests.test_a.Of" name="test_good"/>
<testcase classname="tests.test_a.Of" name="test_bad"><failure message="AssertionError: 1 != 2">the traceback</failure></testcase>
<testcase classname="tests.test_a.Of" name="test_broken"><error message="fixture 'x' not found">…</error></testcase>
<testcase classname="tests.test_a.Of" name="test_left_out"><skipped message="needs 3 GPUs"/></testcase>
</testsuite></testsuites>"""


def test_results_of_a_junit_file(tmp_path):
    file = tmp_path / "a.xml"
    file.write_text(JUNIT)
    assert [(r.name, r.outcome) for r in read(file)] == [
        ("Of::test_good", PASSED), ("Of::test_bad", FAILED), ("Of::test_broken", FAILED), ("Of::test_left_out", SKIPPED),
    ]  # fmt: skip
    assert read(tmp_path / "missing.xml") == []


def test_a_reason_is_read_from_the_message():
    assert "memory" in reason("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 78.82 GiB. GPU 0 …")
    assert "package" in reason("ModuleNotFoundError: No module named 'deepspeed'")
    assert reason("AssertionError: 1 != 2") == UNEXPLAINED
    # A small allocation that fails is no matter of the host's.
    assert reason("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB") == UNEXPLAINED


def suite(*failures):
    outcomes = {"test_a.py::Of::test_good": PASSED, **{f["test"]: FAILED for f in failures}}
    finding = {"kind": "refused-op", "operation": "aten::mm", "devices": ["cuda:0", "cuda:1"]}
    return {"version": "1.0", "outcomes": outcomes, "failures": list(failures), "not_ended": ["test_z.py"], "findings": [finding]}


def test_the_page_names_what_nothing_explains():
    unexplained = {"test": "test_a.py::Of::test_bad", "message": "1 | 2", "reason": UNEXPLAINED, "without": "passed"}
    same = {"test": "test_a.py::Of::test_same", "message": "3", "reason": UNEXPLAINED, "without": "failed"}
    page = markdown({"some": suite(unexplained, same)}, "PyTorch 9")
    assert "| some 1.0 | 3 | 1 | 2 | 0 | 1 |" in page
    assert "| some: `test_a.py::Of::test_bad` | passed | 1 \\| 2 |" in page
    assert f"| {SAME_WITHOUT} | 1 |" in page and "`test_a.py::Of::test_same`" not in page
    assert "| some | refused-op | `aten::mm` | cuda:0 cuda:1 | 1 |" in page
    assert "- some: `test_z.py`" in page


def test_no_file_is_named_twice():
    assert all(len(set(s.files)) == len(s.files) for s in SUITES)


def test_one_class_of_a_file_runs_alone_and_only_its_failures_run_again(tmp_path, monkeypatch):
    def pytest(self, prefix, junit, arguments):
        asked.append((bool(prefix), junit.name, arguments))
        junit.write_text(JUNIT)

    asked = []
    monkeypatch.setattr(Runner, "pytest", pytest)
    runner = Runner(Suite("accelerate", ("test_a.py::Of",)), tmp_path, tmp_path, keep=False)
    of_file = runner.file("test_a.py::Of")
    assert of_file["outcomes"]["test_a.py::Of::test_good"] == PASSED and of_file["ended"]
    assert [f["test"] for f in of_file["failures"]] == ["test_a.py::Of::test_bad", "test_a.py::Of::test_broken"]
    rehearsed, again = asked
    assert rehearsed == (True, "test_a-Of.xml", ["tests/test_a.py::Of"])
    assert again[:2] == (False, "test_a-Of-without.xml")
    assert again[2] == ["tests/test_a.py::Of", "--deselect=tests/test_a.py::Of::test_good", "--deselect=tests/test_a.py::Of::test_left_out"]


def test_what_is_laid_into_a_suite_has_the_classes_that_are_run():
    for suite in (s for s in SUITES if s.ours):
        text = (HERE / suite.ours).read_text(encoding="utf-8")
        wanted = [file.partition("::")[2].removesuffix("Test") for file in suite.files]
        assert wanted and all(f'    "{start}": (' in text for start in wanted)


def test_what_takes_too_long_is_ended_with_all_that_it_started(tmp_path, monkeypatch):
    monkeypatch.setattr(suite_runner, "FILE_LIMIT_S", 2)
    runner = Runner(Suite("accelerate", ()), tmp_path, tmp_path, keep=False)
    runner.tests.mkdir(parents=True)
    runner.environment = os.environ
    runner.pytest(["sh", "-c", "sleep 300 & echo $! > pid; wait"], tmp_path / "a.xml", [])
    child = int((runner.tests / "pid").read_text())
    for _ in range(100):
        if not alive(child):
            break
        time.sleep(0.1)
    assert not alive(child)


def alive(pid):
    """A process that is dead but not yet waited for is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_traceback_that_quotes_an_address_is_no_reason_where_the_test_fails_anyway():
    failed = suite_runner.Result("Of::test_bad", FAILED, "TypeError: no", "# see https://huggingface.co/")
    assert suite_runner.why(failed, FAILED) == UNEXPLAINED
    assert "network" in suite_runner.why(failed, PASSED)
