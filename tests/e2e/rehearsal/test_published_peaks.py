"""Peaks of memory that others have measured on hardware; docs/evidence/placement.md has more of them (`make published`)."""

import json
import sys

import pytest
from conftest import DEVTRACE, TOP, environment, execute

PUBLISHED = TOP / "tests/workloads/placement/published.py"


@pytest.mark.parametrize("what, model, peak", [("generate", "stablelm-3b", 7.30), ("lora", "phi-1.5", 4.82)])
def test_a_peak_on_an_a100(tmp_path, what, model, peak):
    command = [DEVTRACE, "rehearse", "--gpus", 1, "--gpu-model", "a100", "--values", "small:1MiB", "--no-trace", "--", sys.executable, PUBLISHED, what, model]
    outcome = execute(command, tmp_path, environment(None))
    found = json.loads(next(line for line in outcome.out.splitlines() if line.startswith("{")))
    assert abs(found["allocated"] / 1e9 - peak) < 0.01 * peak, outcome.err
