"""A sample of the overloads and types (overloads/run.py), and that what is wrong is told."""

import json
import subprocess
import sys
from pathlib import Path

from conftest import BUILD

HERE = Path(__file__).resolve().parent / "overloads"
sys.path.insert(0, str(HERE))
import page  # noqa: E402

SAMPLE = (
    "aten::_softmax", "aten::_softmax.out", "aten::_log_softmax_backward_data", "aten::histc", "aten::linalg_qr.out", "aten::masked_select.out", "aten::addmm.out",
    "aten::avg_pool3d.out", "aten::binary_cross_entropy.out", "aten::isin.Scalar_Tensor", "aten::sum.IntList_out", "aten::add_.Tensor", "aten::native_dropout",
)  # fmt: skip


def test_a_sample_is_equal(tmp_path):
    done = subprocess.run(
        [sys.executable, HERE / "run.py", "--build", BUILD, "--jobs", "1", "--json", tmp_path / "verdicts.json", "--markdown", tmp_path / "page.md", "--operators", *SAMPLE],
        capture_output=True, text=True, timeout=400,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    verdicts = json.loads((tmp_path / "verdicts.json").read_text())
    assert set(verdicts["overloads"]) == set(SAMPLE) and not verdicts["crashed"]
    for name, verdict in verdicts["overloads"].items():
        assert verdict["counts"].get("equal", 0) + verdict["counts"].get("random", 0) >= 5, (name, verdict)
    # Halves to float32, which is what the CPU's kernel lacks, and three forms of out=.
    assert verdicts["overloads"]["aten::_softmax"]["counts"]["equal"] > 10
    assert "## Wrong\n\nNone." in (tmp_path / "page.md").read_text()


def test_what_is_wrong_is_told():
    verdicts = {"overloads": {"aten::add.out": {"counts": {"equal": 3, "wrong": 1}, "kinds": {"wrong": [["float16, out strided", "1 | 2"]]}}}, "crashed": ["aten::mul: Aborted"]}
    text = page.markdown(verdicts)
    assert "| `aten::add.out` | 1 | float16, out strided | 1 \\| 2 |" in text and "- aten::mul: Aborted" in text and "| wrong | 1 | 1 |" in text
    assert "wrong: aten::add.out (float16, out strided)" in page.summary(verdicts)
