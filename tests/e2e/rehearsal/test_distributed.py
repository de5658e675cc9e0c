"""Programs of several ranks, as launchers start them: each compares, rank by rank, with one process on the CPU, and devtrace has nothing to say."""

import pytest
from conftest import TOP

PROGRAMS = TOP / "tests" / "workloads" / "distributed"
ONE_THREAD = {"OMP_NUM_THREADS": "1"}
REPLICATED = ["bucket_views", "unused_parameters", "static_graph", "accumulated", "fsdp", "fsdp2", "fsdp2_of_replicas"]
SPLIT = ["tensors", "tensor_parallel", "sharded_tensor_parallel", "transformers_tensor_parallel", "pipelines", "sequences", "checkpoints"]


def torchrun(ranks, *program):
    return ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", ranks, *program]


def passed(outcome, checks):
    assert outcome.code == 0, outcome.err
    assert [line for line in outcome.out.splitlines() if not line.startswith(("{", "devtrace"))] == checks, outcome.out
    assert outcome.findings == [], outcome.err
    assert "not computed in this rehearsal" not in outcome.err and "not simulated" not in outcome.err, outcome.err
    assert "devtrace: NCCL:" not in outcome.err, outcome.err


def test_data_parallel_by_torchrun(rehearse):
    passed(rehearse(torchrun(2, PROGRAMS / "data_parallel.py"), env=ONE_THREAD), REPLICATED)


@pytest.mark.parametrize("method, ranks", [("spawn", 2), ("fork", 8)])
def test_data_parallel_by_torch_multiprocessing(rehearse, method, ranks):
    passed(rehearse([PROGRAMS / "spawned.py", method, ranks], gpus=ranks), REPLICATED)


def test_split_models_and_a_checkpoint_of_another_world_size(rehearse):
    for ranks in (2, 4):
        passed(rehearse(torchrun(ranks, PROGRAMS / "split_models.py"), gpus=4, env=ONE_THREAD), SPLIT)


def test_trainers_by_accelerate_launch(rehearse):
    launch = ["-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", 2]
    passed(rehearse([*launch, PROGRAMS / "trainers.py"], env=ONE_THREAD), ["accelerate", "trainer", "ddp", "fsdp"])
