"""Peaks of memory that others have measured on hardware; docs/evidence/placement.md has more of them (`make published`)."""

import json
import sys

import pytest
from conftest import DEVTRACE, TOP, environment, execute

PLACEMENT = TOP / "tests/workloads/placement"


def run(folder, options, program, *words, env=None):
    command = [DEVTRACE, "rehearse", *options, "--values", "small:1MiB", "--no-trace", "--", sys.executable, PLACEMENT / program, *words]
    outcome = execute(command, folder, environment(None, env or {}))
    return json.loads(next(line for line in outcome.out.splitlines() if line.startswith("{")))


@pytest.mark.slow
@pytest.mark.parametrize("what, model, peak", [("generate", "stablelm-3b", 7.30), ("lora", "phi-1.5", 4.82)])
def test_a_peak_on_an_a100(tmp_path, what, model, peak):
    found = run(tmp_path, ["--gpus", 1, "--gpu-model", "a100"], "published.py", what, model)
    assert abs(found["allocated"] / 1e9 - peak) < 0.01 * peak, found


@pytest.mark.slow
@pytest.mark.parametrize("sharded, peaks", [([], (335, 656, 992, 1697)), (["--sharded"], (335, 656, 992, 1361))], ids=["Adam", "sharded"])
def test_peaks_of_two_ranks(tmp_path, sharded, peaks):
    found = run(tmp_path, ["--gpus", 2], "published_ranks.py", *sharded, env={"CUBLAS_WORKSPACE_CONFIG": ":0:0"})
    for moment, peak in zip(("model", "DDP", "backward", "step"), peaks):
        most = 0.1 if moment == "DDP" else 0.02  # gloo's threads give back what they sent when they come to it
        assert abs(found[moment] / 1e6 - peak) < most * peak, found


@pytest.mark.slow
@pytest.mark.parametrize("words, peak", [(["--batch", 4], 14949), (["--accumulate", 4, "--checkpoint"], 6775)], ids=["4 rows", "checkpoints"])
def test_steps_of_bert_on_a_v100(tmp_path, words, peak):
    found = run(tmp_path, ["--gpus", 1, "--gpu-model", "t4", "--memory", "16160MiB"], "published_transformers.py", "bert", *words)
    assert abs((found["reserved"] >> 20) + 1343 - peak) < 0.03 * peak, found
