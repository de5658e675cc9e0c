"""NCCL between the devices of one process: PyTorch's own code runs on the stand-in, with all its checks. Between processes: test_torchrun.py."""

import json

import pytest
from conftest import line_of, only

# What each call raises is what PyTorch says on hardware.
REFUSED = {
    "comm.broadcast(x, [0, -1])": "Expected non-negative device index, but got -1",
    "comm.broadcast(x, [0, 7])": "CUDA error: invalid device ordinal",
    "comm.broadcast(x, out=[torch.ones(6)])": "Expected all output tensors to be CUDA tensors, but output tensor at index 0 has device 'cpu'",
    'comm.broadcast(x, out=[torch.ones(5, device="cuda:1")])':
        "Expected all output tensors to have same shape as the source tensor [6], but output tensor at index 0 has shape [5]",
    "comm.broadcast_coalesced([x, y], [0, 1])": "All tensors must be on devices[0]: 0",
    "comm.broadcast_coalesced([y, y], [0, 1])": "All tensors must be on devices[0]: 0",
    "nccl.all_reduce([x, x.clone()])": "inputs must be on unique devices",
    "nccl.all_gather([x, y], [torch.zeros(3, device=d) for d in (0, 1)])": None,
}  # fmt: skip

REFUSALS = """
import json, sys
import torch
from torch.cuda import comm, nccl
x, y = torch.arange(6.0, device="cuda:0"), torch.arange(6.0, device="cuda:1")
for call in json.load(open(sys.argv[1])):
    try:
        eval(call)
        print(json.dumps([call, None]))
    except Exception as error:
        print(json.dumps([call, str(error).splitlines()[0]]))
"""


def test_pytorch_s_own_checks_are_made(rehearse, tmp_path):
    (tmp_path / "calls.json").write_text(json.dumps(list(REFUSED)))
    (tmp_path / "refusals.py").write_text(REFUSALS)
    outcome = rehearse(["refusals.py", "calls.json"], trace=False)
    said = dict(map(json.loads, outcome.out.splitlines()))
    for call, text in REFUSED.items():
        assert said.get(call) is not None and (text is None or said[call] == text), (call, said.get(call), outcome.err[-1000:])


def test_a_device_error_of_a_broadcast_is_a_finding(rehearse):
    outcome = rehearse(
        """
        import torch
        from torch.cuda import comm
        x, y = torch.ones(6, device="cuda:0"), torch.ones(6, device="cuda:1")
        comm.broadcast_coalesced([x, y], [0, 1])
        """
    )
    assert "RuntimeError: All tensors must be on devices[0]: 0" in outcome.err
    finding = only(outcome, "refused-op")
    assert [(one["name"], one["device"]) for one in finding["operands"]] == [("x", "cuda:0"), ("y", "cuda:1")]
    assert finding["python"][0]["file"].endswith("comm.py") or finding["python"][0]["line"] == line_of(outcome, "comm.broadcast_coalesced(")


COLLECTIVES = """
import json
import torch
from torch.cuda import comm, nccl

def ranks(*rows, dtype):
    return [torch.tensor(row, dtype=torch.float64).to(dtype).to(f"cuda:{i}") for i, row in enumerate(rows)]

seen = {}
for dtype in (torch.uint8, torch.int8, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64):
    for op, by_hand in ((0, lambda a, b: a + b), (1, lambda a, b: a * b), (2, torch.maximum), (3, torch.minimum)):
        a, b = ranks([0, 1, 2, 5, 7, 11], [3, 0, 1, 9, 2, 4], dtype=dtype)
        want = by_hand(a.cpu(), b.cpu())
        nccl.all_reduce([a, b], op=op)
        assert torch.equal(a.cpu(), want) and torch.equal(b.cpu(), want), (dtype, op, a, b, want)
# Halves of every size: rounding, subnormal numbers, infinity.
for dtype in (torch.float16, torch.bfloat16):
    left = torch.arange(1 << 16).to(torch.int32).to(torch.uint16).view(dtype)
    right = left.roll(12345)
    a, b = left.cuda(0), right.cuda(1)
    nccl.all_reduce([a, b])
    torch.testing.assert_close(a.cpu(), (left.float() + right.float()).to(dtype), rtol=0, atol=0, equal_nan=True)
x, y = ranks([0, 1, 2, 3], [10, 11, 12, 13], dtype=torch.float32)
gathered = [torch.zeros(8, device=i) for i in (0, 1)]
nccl.all_gather([x, y], gathered)
scattered = [torch.zeros(2, device=i) for i in (0, 1)]
nccl.reduce_scatter([x, y], scattered)
reduced = torch.zeros(4, device=1)
nccl.reduce([x, y], output=reduced, root=1)
sent = [x.clone(), torch.zeros(4, device=1)]
nccl.broadcast(sent)
copies = comm.broadcast_coalesced([x, x + 1], [0, 1])
print(json.dumps({
    "gathered": [t.tolist() for t in gathered], "scattered": [t.tolist() for t in scattered], "reduced": reduced.tolist(),
    "sent": sent[1].tolist(), "copies": [t.tolist() for t in copies[1]], "added": comm.reduce_add([x, y]).tolist(),
}))
"""


def test_collectives_have_their_values(rehearse):
    outcome = rehearse(COLLECTIVES)
    assert outcome.code == 0, outcome.err
    assert json.loads(outcome.out) == {
        "gathered": [[0, 1, 2, 3, 10, 11, 12, 13]] * 2, "scattered": [[10, 12], [14, 16]], "reduced": [10, 12, 14, 16],
        "sent": [0, 1, 2, 3], "copies": [[0, 1, 2, 3], [1, 2, 3, 4]], "added": [10, 12, 14, 16],
    }  # fmt: skip
    assert outcome.findings == []


def test_a_sum_waits_for_every_device_s_stream(rehearse):
    """What the other device's stream is still at, behind a host function, is in the sum; and a graph's replay sums anew."""
    outcome = rehearse(
        """
        import ctypes, time
        import torch
        from torch.cuda import nccl
        runtime = ctypes.CDLL("libcudart.so.13")
        late = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: time.sleep(0.3))
        x, y = torch.ones(4, device=0), torch.ones(4, device=1)
        streams = [torch.cuda.Stream(0), torch.cuda.Stream(1)]
        torch.cuda.synchronize(0), torch.cuda.synchronize(1)
        source = torch.full((4,), 5.0).pin_memory()
        with torch.cuda.stream(streams[1]):
            assert runtime.cudaLaunchHostFunc(ctypes.c_void_p(streams[1].cuda_stream), late, None) == 0
            y.copy_(source, non_blocking=True)
        nccl.all_reduce([x, y], streams=streams)
        torch.cuda.synchronize(0), torch.cuda.synchronize(1)
        print(x.tolist(), y.tolist())
        """
    )
    assert outcome.out == "[6.0, 6.0, 6.0, 6.0] [6.0, 6.0, 6.0, 6.0]\n", outcome.err


ONE_RANK = """
import os
import torch, torch.distributed as dist
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1, device_id=torch.device("cuda:0"))
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 1).cuda(), device_ids=[0])
model(torch.ones(2, 3, device="cuda")).sum().backward()
total = torch.full((2,), 3.0, device="cuda")
dist.all_reduce(total)
print(total.tolist(), model.module.weight.grad.tolist())
dist.destroy_process_group()
"""


def test_a_process_group_of_one_rank(rehearse):
    outcome = rehearse(ONE_RANK)
    assert outcome.code == 0, outcome.err
    assert outcome.out == "[3.0, 3.0] [[2.0, 2.0, 2.0]]\n"


TWO_RANKS = """
import os, sys
import torch, torch.distributed as dist, torch.multiprocessing as mp

def work(rank, path):
    torch.cuda.set_device(rank)
    dist.init_process_group(sys.argv[1], store=dist.FileStore(path, 2), rank=rank, world_size=2)
    total = torch.full((2,), 1.0 + rank, device="cuda")
    dist.all_reduce(total)
    os.write(1, f"{rank} {total.tolist()}\\n".encode())
    dist.destroy_process_group()

if __name__ == "__main__":
    mp.spawn(work, args=(os.path.abspath("store"),), nprocs=2)
"""


@pytest.mark.parametrize("backend", ["nccl", "gloo"])
def test_between_processes(rehearse, backend, tmp_path):
    (tmp_path / "two.py").write_text(TWO_RANKS)
    outcome = rehearse(["two.py", backend], trace=False)
    assert outcome.code == 0 and sorted(outcome.out.splitlines()) == ["0 [3.0, 3.0]", "1 [3.0, 3.0]"], outcome.err
    assert "devtrace" not in outcome.err
