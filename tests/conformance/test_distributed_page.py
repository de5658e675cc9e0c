"""One of PyTorch's own tests of torch.distributed, and the page that is made of such."""

import json
import subprocess
import sys
from pathlib import Path

from conftest import BUILD

HERE = Path(__file__).resolve().parent


def test_a_test_passes_and_another_is_skipped(tmp_path):
    run = [sys.executable, HERE / "distributed.py", "--build", BUILD, "--scratch", tmp_path, "--json", tmp_path / "found.json", "--markdown", tmp_path / "page.md"]
    subprocess.run([*run, "--jobs", "0", "--only", "test_all_gather_cuda_complex or test_barrier_timeout_full_group"], check=True, timeout=120)
    found = json.loads((tmp_path / "found.json").read_text())
    assert {test["name"]: test["outcome"] for test in found["tests"]} == {"test_all_gather_cuda_complex": "passed", "test_barrier_timeout_full_group": "skipped"}
    page = (tmp_path / "page.md").read_text()
    assert "| 2 | 1 | 0 | 1 | 0 |" in page and "| Only gloo backend supports timeouts | 1 |" in page and "None does." in page
