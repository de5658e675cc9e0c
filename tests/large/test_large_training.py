"""A whole 7B in training on eight devices, by its shapes: `make large`. `make test` has a few layers of it (test_training_by_shape.py)."""

import json
import sys
import time

import pytest
from conftest import DEVTRACE, TOP, environment, execute

TRAINING = TOP / "tests/workloads/placement/training.py"
LAYER, ROOT = (4 * 4096**2 + 3 * 4096 * 11008 + 2 * 4096) * 2, (2 * 32000 * 4096 + 4096) * 2  # LLaMA-7B's, in bytes of bfloat16
WHOLE = ROOT + 32 * LAYER


def trained(folder, ranks, way, memory):
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", ranks] if ranks > 1 else []
    command = [DEVTRACE, "rehearse", "--gpus", ranks, "--gpu-model", "a100", "--memory", memory, "--values", "small:1MiB", "--", sys.executable, *launcher]
    begun = time.time()
    outcome = execute([*command, TRAINING, "llama-7b", "--way", way], folder, environment(None, {"OMP_NUM_THREADS": "1"}), 900)
    found = [json.loads(line) for line in outcome.out.splitlines() if line.startswith("{")]
    assert len(found) == ranks, outcome.err
    print(ranks, way, memory, f"{time.time() - begun:.0f} s", found[0])
    return outcome, found


def test_eight_ranks_of_fsdp2(tmp_path):
    outcome, found = trained(tmp_path, 8, "fsdp2", "40GiB")
    assert outcome.code == 0, outcome.err
    shard = WHOLE / 8
    for each in found:  # as test_training_by_shape.py has it
        assert 5 * shard < each["peaks"]["update"] < 5 * shard * 1.03
        least = 3 * shard + 32 * LAYER / 8 + ROOT * 1.5 + 3 * LAYER
        assert least * 0.99 < each["peaks"]["backward"] < least * 1.07
    assert sum(each["host_MiB"] for each in found) < 12 << 10


def test_eight_ranks_of_ddp(tmp_path):
    """The gradients lie in DDP's buckets and beside them."""
    outcome, found = trained(tmp_path, 8, "ddp", "80GiB")
    assert outcome.code == 0, outcome.err
    assert all(6 * WHOLE < each["peaks"]["update"] < 6 * WHOLE * 1.03 for each in found)


@pytest.mark.parametrize("memory, dies", [("40GiB", True), ("80GiB", False)])
def test_one_device(tmp_path, memory, dies):
    outcome, found = trained(tmp_path, 1, "alone", memory)
    assert outcome.code == (3 if dies else 0), outcome.err
    if dies:  # in the first step, where the moments are made
        assert found[0]["error"].startswith("CUDA out of memory.") and list(found[0]["peaks"]) == ["weights", "forward", "backward"]
    else:
        assert 5 * WHOLE < found[0]["peaks"]["update"] < 5 * WHOLE * 1.03
