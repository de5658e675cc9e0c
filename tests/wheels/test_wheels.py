"""What the page of wheels says of what came out; the wheels themselves run by `make wheels`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from run import not_computed  # noqa: E402
from wheels import WHEELS  # noqa: E402
from wheels_page import is_whole, markdown  # noqa: E402


def row(**changed):
    return {"version": "1.0", "code": 0, "seconds": 3, "equal": ["a"], "apart": [], "uncomputed": [], "findings": 0, "last": "", "preload": [], **changed}


def test_a_row_is_whole_only_if_nothing_is_wrong():
    assert is_whole(row())
    for changed in ({"code": 1}, {"code": None}, {"apart": ["b"]}, {"uncomputed": ["kernel f (launches: 1)"]}, {"findings": 1}, {"preload": ["output"]}):
        assert not is_whole(row(**changed)), changed
    assert not is_whole({"version": "", "missing": "no such package"})


def test_the_page_says_what_is_not_and_why():
    page = markdown({"jax": row(apart=["devices"], equal=[]), "triton": row(), "peft": {"version": "", "missing": "a | b"}}, "PyTorch 9")
    assert "**1 of 3 are whole.**" in page and "| triton | 1.0 | a | yes | same |  | 3 |" in page
    assert "| no | same | apart: devices; (XLA hands the driver machine code" in page
    assert "| peft |  |  | no |  | not fetched: a \\| b |  |" in page


def test_the_rows_that_were_not_run_stay_as_they_were():
    before = markdown({"jax": row(apart=["devices"], equal=[]), "triton": row()}, "PyTorch 9")
    page = markdown({"jax": row()}, "PyTorch 9", before)
    assert "**2 of 2 are whole.**" in page and page.count("| triton | 1.0 | a | yes | same |  | 3 |") == 1 and "apart" not in page


def test_each_wheel_has_one_row_and_a_program_that_compares():
    assert len({wheel.name for wheel in WHEELS}) == len(WHEELS)
    assert all("equal" in wheel.program or "both(" in wheel.program for wheel in WHEELS)


def test_what_any_process_does_not_compute_counts():
    lines = ["devtrace: 2 kernels are not computed:", "devtrace:   kernel f (launches: 1)", "(child pid=7) devtrace: a.py:3: the host reads what kernel g<int> should have written, which …"]
    assert not_computed(lines) == ["kernel f (launches: 1)", "kernel g<int>"]
