"""What the page of other projects' suites says of JUnit files; the suites themselves run by `make suites`."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from failure_reasons import UNEXPLAINED, reason  # noqa: E402
from results import FAILED, PASSED, SKIPPED, read  # noqa: E402
from suites import SUITES  # noqa: E402
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
