"""Training by shapes alone: its peak by rank is what arithmetic says. `make large` has the whole of a 7B (tests/large/test_large_training.py)."""

import json
import subprocess
import sys

import pytest
from conftest import DEVTRACE, TOP, environment, execute

TRAINING = TOP / "tests/workloads/placement/training.py"
# LLaMA-7B's, in bytes of bfloat16: a decoder layer; the embedding, the head and the last norm, which FSDP2 gathers together.
LAYER, ROOT = (4 * 4096**2 + 3 * 4096 * 11008 + 2 * 4096) * 2, (2 * 32000 * 4096 + 4096) * 2
# Of a layer and 2048 tokens, about: some twenty tensors as wide as the model, and six as wide as its MLP.
ACTIVATIONS = 2048 * (20 * 4096 + 6 * 11008) * 2


def trained(folder, ranks, *words, memory="40GiB", time=600):
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", ranks] if ranks > 1 else []
    command = [DEVTRACE, "rehearse", "--gpus", ranks, "--memory", memory, "--values", "small:1MiB", "--", sys.executable, *launcher, TRAINING, *words]
    outcome = execute(command, folder, environment(None, {"OMP_NUM_THREADS": "1"}), time)
    found = [json.loads(line) for line in outcome.out.splitlines() if line.startswith("{")]
    assert len(found) == ranks, outcome.err
    return outcome, sorted(found, key=lambda each: each["rank"])


@pytest.mark.slow
def test_fsdp2(tmp_path):
    ranks, layers = 2, 4
    outcome, found = trained(tmp_path, ranks, "llama-7b", "--layers", layers)
    assert outcome.code == 0 and outcome.findings == [], outcome.err
    assert "NCCL" not in outcome.err
    shard = (ROOT + layers * LAYER) / ranks
    for each in found:
        peaks = each["peaks"]
        assert shard < peaks["weights"] < shard * 1.02
        # Weights, gradients, two moments, and what AdamW computes of all parameters at once.
        assert 5 * shard < peaks["update"] < 5 * shard * 1.03
        # In the last layer: weights and moments; all layers' gradients; the gathered root and the head's gradient.
        # Besides what was gathered of the layer, its gradients and their copy that is sent; and its activations.
        least = 3 * shard + layers * LAYER / ranks + ROOT * 1.5 + 3 * LAYER
        assert least * 0.99 < peaks["backward"] < least + ACTIVATIONS
        assert each["host_MiB"] < 2048
    assert found[0]["peaks"] == found[1]["peaks"]
    # The logs say the same, and what it was for: of each rank's peak in the backward pass.
    records = sorted((record for record in outcome.records if record["record"] == "memory"), key=lambda each: each["device"])
    assert [record["device"] for record in records] == ["cuda:0", "cuda:1"]
    for record, each in zip(records, found):
        assert record["peak"] == max(each["peaks"].values())
        assert shard < record["weights"] < shard * 1.02 and 2 * shard < record["optimizer"] < 2 * shard * 1.02
        assert LAYER / ranks < record["gradients"] < 1.02 * layers * LAYER / ranks
        assert sum(record[name] for name in ("weights", "gradients", "optimizer", "caches", "activations", "other")) == record["peak"]
    text = subprocess.run([DEVTRACE, "report", "--format", "text", tmp_path], capture_output=True, text=True, check=True).stdout
    lines = [line for line in text.splitlines() if "activations " in line]
    assert len(lines) == 2 and all(f"  cuda:{rank}    rank {rank} (" in line for rank, line in enumerate(sorted(lines))), text


def test_ddp(tmp_path):
    outcome, found = trained(tmp_path, 2, "llama-7b", "--way", "ddp", "--layers", 2)
    assert outcome.code == 0 and outcome.findings == [], outcome.err
    whole = ROOT + 2 * LAYER
    for each in found:  # the gradients lie in DDP's buckets and beside them
        assert 6 * whole < each["peaks"]["update"] < 6 * whole * 1.03
        assert each["host_MiB"] < 2048


def test_one_device_is_full_where_arithmetic_says(tmp_path):
    """Weights and gradients fit, and the first step's two moments do not."""
    layers, memory = 6, 8
    outcome, found = trained(tmp_path, 1, "llama-7b", "--way", "alone", "--layers", layers, "--context", 128, memory=f"{memory}GiB")
    whole = ROOT + layers * LAYER
    assert 2 * whole < memory << 30 < 4 * whole
    assert outcome.code == 3 and found[0]["error"].startswith("CUDA out of memory."), outcome.err
    assert list(found[0]["peaks"]) == ["weights", "forward", "backward"]


def test_numbers_that_are_not_large_are_still_exchanged(tmp_path):
    """A loss is the mean of all ranks' under --values small, a gathered tensor of whole numbers is true, and a large one of floating point takes no memory."""
    (tmp_path / "program.py").write_text(EXCHANGED)
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 2]
    command = [DEVTRACE, "rehearse", "--gpus", 2, "--values", "small", "--", sys.executable, *launcher, "program.py"]
    outcome = execute(command, tmp_path, environment(None, {"OMP_NUM_THREADS": "1"}))
    assert outcome.code == 0, outcome.err
    assert outcome.out.split("\n")[0] == "1.5 [0, 0, 1, 1] 6.0 0.0 0.0 0.0 True", outcome.out


EXCHANGED = """
import os, resource, torch
import torch.distributed as dist
rank = int(os.environ["RANK"])
device = torch.device("cuda", rank)
torch.cuda.set_device(device)
dist.init_process_group("nccl", device_id=device)
loss = torch.full((1,), rank + 1.0, device=device)
dist.all_reduce(loss, op=dist.ReduceOp.AVG)
whole = torch.empty(4, dtype=torch.long, device=device)
dist.all_gather_into_tensor(whole, torch.full((2,), rank, device=device))
ids = torch.full((4 << 20,), rank + 2, device=device)  # 32 MiB of whole numbers
dist.broadcast(ids, 1)
torch.cuda.synchronize()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
large = torch.ones(128 << 20, device=device)  # 512 MiB
dist.all_reduce(large)
parts = torch.empty(256 << 20, device=device)
dist.all_gather_into_tensor(parts, large)
dist.reduce_scatter_tensor(large, parts)
message = torch.zeros(8 << 20, device=device)
if rank == 0:
    dist.send(message, 1)
else:
    dist.recv(message, 0)
torch.cuda.synchronize()
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
read = [each[:4].sum().item() for each in (large, parts, message)]
if rank == 1:
    print(loss.item(), whole.tolist(), ids[:2].sum().item() * 1.0, *read, grown < 100 << 10)
dist.destroy_process_group()
"""
