"""Several processes, each with a device, and NCCL between them: what they compute is what one process on the CPU computes."""

import json
import re
import subprocess

import pytest
from conftest import DEVTRACE
from forked_ranks import FORKED

COLLECTIVES = FORKED + """
TYPES = (torch.uint8, torch.int8, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64)

def collectives(rank, world):
    every = [torch.arange(world * 6).roll(r) % 5 + r for r in range(world)]
    cuda = lambda dtype=torch.float32: every[rank].to(dtype).cuda()
    equal = lambda got, want: torch.testing.assert_close(got.cpu(), want, rtol=0, atol=0)
    for dtype in TYPES:
        all = torch.stack(every).to(dtype)
        for op, wanted in ((dist.ReduceOp.SUM, all.sum(0)), (dist.ReduceOp.MAX, all.amax(0)), (dist.ReduceOp.MIN, all.amin(0)), (dist.ReduceOp.PRODUCT, all.prod(0))):
            x = cuda(dtype)
            dist.all_reduce(x, op=op)
            equal(x, wanted.to(dtype))
    all = torch.stack(every).float()
    x = cuda()
    dist.all_reduce(x, op=dist.ReduceOp.AVG)
    equal(x, all.sum(0) / world)
    x = cuda()
    dist.all_reduce(x, op=dist._make_nccl_premul_sum(0.5))
    equal(x, all.sum(0) / 2)
    x = torch.tensor([rank == 1, True]).cuda()
    dist.all_reduce(x)
    equal(x, torch.tensor([True, True]))
    x = cuda()
    dist.broadcast(x, world - 1)
    equal(x, all[-1])
    parts = [torch.empty(6 * world, device="cuda") for _ in range(world)]
    dist.all_gather(parts, cuda())
    equal(torch.stack(parts), all)
    part = torch.empty(6, device="cuda")
    dist.reduce_scatter_tensor(part, cuda())
    equal(part, all.sum(0)[6 * rank:6 * rank + 6])
    x = torch.empty(6 * world, device="cuda")
    dist.all_to_all_single(x, cuda())
    equal(x, torch.cat([row[6 * rank:6 * rank + 6] for row in all]))
    x = torch.empty(6 * world, device="cuda")
    dist.scatter(x, list(all.cuda()) if rank == 0 else None)
    equal(x, all[rank])
    dist.gather(cuda(), parts if rank == 0 else None)
    equal(torch.stack(parts), all)
    said = [None] * world
    dist.all_gather_object(said, {"rank": rank})
    assert said == [{"rank": r} for r in range(world)]
    said = [("from", rank)]
    dist.broadcast_object_list(said, src=1)
    assert said == [("from", 1)]
    # A ring, and every rank receives before it sends.
    x, after, before = torch.empty(6 * world, device="cuda"), (rank + 1) % world, (rank - 1) % world
    for work in dist.batch_isend_irecv([dist.P2POp(dist.irecv, x, before), dist.P2POp(dist.isend, cuda(), after)]):
        work.wait()
    equal(x, all[before])
    # Nothing waits for the host: the other rank comes only after a message that is sent behind the collective.
    x = cuda()
    if rank == 0:
        work = dist.all_reduce(x, async_op=True)
        assert not work.is_completed()
        store.set("go", "")
    else:
        store.wait(["go"])
        work = dist.all_reduce(x, async_op=True)
    work.wait()
    doubled = x * 2
    equal(doubled, all.sum(0) * 2)
    halves = [dist.new_group([r for r in range(world) if r % 2 == half]) for half in (0, 1)]
    x = cuda()
    dist.all_reduce(x, group=halves[rank % 2])
    equal(x, all[rank % 2::2].sum(0))
    # Each launch of a graph is a collective of its own.
    x, graph = torch.ones(4, device="cuda"), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        dist.all_reduce(x)
    for _ in range(3):
        graph.replay()
    equal(x, torch.full((4,), float(world ** 3)))
    dist.barrier()

store = dist.FileStore(os.path.abspath("messages"), -1)
end("collectives", begin("collectives", collectives, 4))
"""


@pytest.mark.parametrize("env", [{}, {"DEVTRACE_SIM_ASYNC": "3"}], ids=["", "async"])
def test_collectives_between_processes(rehearse, env):
    outcome = rehearse(COLLECTIVES, gpus=4, env=env)
    assert outcome.code == 0 and outcome.out == "collectives [0, 0, 0, 0]\n", outcome.out + outcome.err
    assert outcome.findings == [], outcome.err


KILLED = FORKED + """
import signal
os.environ["TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC"] = "100"  # what the watchdog waits for, four times, before it ends the process

def killed(rank, world):
    x = torch.ones(4, device="cuda")
    dist.all_reduce(x)
    torch.cuda.synchronize()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.all_reduce(x)
    x.tolist()

def left_alone(rank, world):
    x = torch.full((4,), 1.0 + rank, device="cuda")
    for _ in range(20):
        dist.all_reduce(x, op=dist.ReduceOp.AVG)
    assert x.tolist() == [1.5] * 4

jobs = [begin("first", killed, 2), begin("second", left_alone, 2)]
end("first", jobs[0])
end("second", jobs[1])
"""


def test_a_killed_rank_is_named_and_another_job_goes_on(rehearse):
    outcome = rehearse(KILLED, trace=False)
    assert outcome.out == "first [-6, -9]\nsecond [0, 0]\n", outcome.out + outcome.err
    lines = [line for line in outcome.err.splitlines() if line.startswith("devtrace: NCCL:")]
    assert len(lines) == 1 and re.fullmatch(
        r"devtrace: NCCL: rank 1 \(process \d+\) has ended, and rank 0 waits for it in AllReduce of 4 float32", lines[0]), lines
    assert "remote process exited or there was a network error" in outcome.err


ONE_DEVICE = """
import os, multiprocessing, sys
import torch, torch.distributed as dist

def run(rank, world):
    dist.init_process_group("nccl", store=dist.FileStore(os.path.abspath("store"), world), rank=rank, world_size=world)
    dist.all_reduce(torch.ones(1, device=f"cuda:{rank % 2}"))

ranks = [multiprocessing.get_context("fork").Process(target=run, args=(rank, 3)) for rank in range(3)]
for each in ranks: each.start()
for each in ranks: each.join()
print([each.exitcode for each in ranks])
"""


def test_more_ranks_than_devices_are_refused_as_nccl_does(rehearse):
    outcome = rehearse(ONE_DEVICE, trace=False)
    assert outcome.out == "[1, 1, 1]\n", outcome.err
    text = "Duplicate GPU detected : rank 0 and rank 2 both on CUDA device 10000"
    assert outcome.err.count(f"devtrace: NCCL: {text}\n") == 3
    assert outcome.err.count(f"Last error:\n{text}") == 3, outcome.err


MOVED = FORKED + """
def moved(rank, world):
    many, few = torch.ones(1 << 18, device="cuda"), torch.ones(64, device="cuda")
    for _ in range(3):
        dist.all_reduce(many)  # ALL REDUCE
    dist.all_gather_into_tensor(torch.empty(world * 64, device="cuda"), few)  # ALL GATHER
    dist.broadcast(few, 0)  # BROADCAST
    if rank == 0:
        dist.send(few, 1)
    if rank == 1:
        dist.recv(few, 0)  # RECEIVE
    torch.cuda.synchronize()

end("moved", begin("moved", moved, 4))
"""


def test_what_collectives_move_at_least_is_traffic(rehearse):
    outcome = rehearse(MOVED, gpus=4)
    assert outcome.code == 0 and outcome.out == "moved [0, 0, 0, 0]\n", outcome.err
    lines, found = MOVED.splitlines(), set()
    for log in outcome.folder.glob("devtrace-*.jsonl"):
        for record in map(json.loads, log.read_text().splitlines()):
            if record["record"] == "traffic" and record["from"] == "ranks":
                line = next(frame["line"] for frame in record["python"] if frame["function"] == "moved")
                found.add((record["to"], lines[line - 1].partition("# ")[2], record["copies"], record["bytes"]))
    mib, few = 1 << 20, 256
    every = {(f"cuda:{rank}", *moved) for rank in range(4) for moved in (("ALL REDUCE", 3, 3 * 2 * 3 * mib // 4), ("ALL GATHER", 1, 3 * few))}
    assert found == every | {(f"cuda:{rank}", "BROADCAST", 1, few) for rank in (1, 2, 3)} | {("cuda:1", "RECEIVE", 1, few)}
    shown = subprocess.run([DEVTRACE, "report", *outcome.folder.glob("devtrace-*.jsonl")], capture_output=True, text=True).stdout
    assert re.search(r"18 MiB +20 copies +from other ranks at moved \(.*\), of ranks 0 to 3\n", shown), shown


# A collective that is captured moves nothing, and each launch of the graph as much as one that is not.
REPLAYED = FORKED + """
def replayed(rank, world):
    many, few, graph = torch.ones(1 << 18, device="cuda"), torch.ones(64, device="cuda"), torch.cuda.CUDAGraph()
    parts = [torch.empty(64, device="cuda"), torch.empty(32, device="cuda")]
    with torch.cuda.graph(graph):
        dist.all_reduce(many)  # ALL REDUCE
        dist.all_gather([parts[0], torch.empty(64, device="cuda")], few)  # GROUP
    for _ in range(5):
        graph.replay()
    torch.cuda.synchronize()

end("replayed", begin("replayed", replayed, 2))
"""


def test_a_collective_in_a_graph_is_traffic_at_each_launch(rehearse):
    outcome = rehearse(REPLAYED)
    assert outcome.code == 0 and outcome.out == "replayed [0, 0]\n", outcome.err
    lines, found = REPLAYED.splitlines(), {}
    for record in outcome.records:
        if record["record"] == "traffic" and record["from"] == "ranks":
            line = next(frame["line"] for frame in record["python"] if frame["function"] == "replayed")
            found[record["to"], lines[line - 1].partition("# ")[2]] = (record["copies"], record["bytes"])
    assert found == {(f"cuda:{rank}", what): (5, 5 * size) for rank in range(2) for what, size in (("ALL REDUCE", 1 << 20), ("GROUP", 256))}


# What is computed is computed at the replay, and the collective has its place between it.
BETWEEN = FORKED + """
def between(rank, world):
    x, graph = torch.zeros(4, device="cuda"), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        sums = x + 0.5
        dist.all_reduce(sums)
        doubled = sums * 2
        dist.all_reduce(doubled)
    for turn in range(3):
        x.fill_(rank + turn)
        graph.replay()
        assert doubled.tolist() == [(1 + 2 * turn + 1) * 4] * 4, (turn, doubled)

end("between", begin("between", between, 2))
"""


def test_a_collective_in_a_graph_is_between_operators(rehearse):
    outcome = rehearse(BETWEEN)
    assert outcome.code == 0 and outcome.out == "between [0, 0]\n", outcome.err
