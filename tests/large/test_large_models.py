"""Whole models that no host of ours could hold, by their shapes: `make large`, a minute. `make test` has a part of one (test_small_values.py)."""

import json
import sys
import time

import pytest
from conftest import DEVTRACE, TOP, environment, execute

BY_SHAPE = TOP / "tests/workloads/placement/by_shape.py"
LAYER, EMBEDDING = (2 * 8192 * 8192 + 2 * 1024 * 8192 + 3 * 8192 * 28672 + 2 * 8192) * 2, 128256 * 8192 * 2  # LLaMA-70B's, in bytes


def placed(folder, gpus, memory, *words):
    command = [DEVTRACE, "rehearse", "--gpus", gpus, "--gpu-model", "a100", "--memory", memory, "--values", "small", "--", sys.executable, BY_SHAPE, *words]
    begun = time.time()
    outcome = execute(command, folder, environment(None), 120)
    lines = [line for line in outcome.out.splitlines() if line.startswith("{")]
    assert len(lines) == 1, outcome.err
    found = json.loads(lines[0])
    print(gpus, memory, *words, f"{time.time() - begun:.0f} s", found)
    return outcome.code, found


@pytest.mark.parametrize("gpus, memory, model", [
    (8, "40GiB", "llama-70b"), (4, "80GiB", "llama-70b"), (16, "80GiB", "mixtral-8x7b"), (16, "80GiB", "llama-405b"),
])  # fmt: skip
def test_three_tokens(tmp_path, gpus, memory, model):
    code, found = placed(tmp_path, gpus, memory, model)
    assert code == 0 and len(found["tokens"]) == 3
    assert found["host_MiB"] <= 4096 and found["seconds"] <= 60


@pytest.mark.parametrize("memory", [24, 40, 80])
def test_one_device_is_full_at_the_layer_that_arithmetic_says(tmp_path, memory):
    code, found = placed(tmp_path, 1, f"{memory}GiB", "llama-70b")
    assert code == 3 and found["error"].startswith("CUDA out of memory.")
    assert abs(found["layers"] - ((memory << 30) - EMBEDDING) // LAYER) <= 1
