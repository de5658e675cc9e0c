"""A sample of `make conformance`: every sixth operator of PyTorch's operator database, its first sample, its first and last operand."""

import json
import subprocess
import sys

import pytest
from conftest import BUILD, TOP


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory):
    out = tmp_path_factory.mktemp("conformance") / "verdicts.json"
    command = [sys.executable, TOP / "tests/conformance/run.py", "--build", BUILD, "--sample", "6", "--json", out]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert out.exists(), done.stdout + done.stderr
    return json.loads(out.read_text())


def test_the_sample_is_worth_the_name(verdicts):
    assert verdicts["operators"] >= 45
    assert verdicts["refused"] >= 100
    assert len(verdicts["not_judged"]) <= verdicts["operators"] // 4


@pytest.mark.parametrize("fault", ["missed", "duplicate", "wrong_operation", "wrong_devices", "false", "changed"])
def test_no_fault(verdicts, fault):
    assert verdicts[fault] == []
