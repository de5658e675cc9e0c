"""Programs of several ranks, as launchers start them: each compares, rank by rank, with one process on the CPU, and devtrace has nothing to say."""

import pytest
from conftest import TOP
from nightly import first

PROGRAMS = TOP / "tests" / "workloads" / "distributed"
ONE_THREAD = {"OMP_NUM_THREADS": "1"}
REPLICATED = ["bucket_views", "unused_parameters", "static_graph", "accumulated", "fsdp", "fsdp2", "fsdp2_of_replicas"]
SPLIT = ["tensors", "tensor_parallel", "sharded_tensor_parallel", "transformers_tensor_parallel", "pipelines", "sequences", "checkpoints"]
TRAINERS = ["accelerate", "trainer", "ddp", "fsdp"]
# A launcher imports PyTorch in each rank, which takes most of the time: other ranks are forks.
LAUNCHED = [2, *(pytest.param(ranks, marks=pytest.mark.slow) for ranks in (4, 8))]
FORKED = [4, 8]
LONGEST = 600  # seconds, of launchers on two processors


def torchrun(ranks, *program):
    return ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", ranks, *program]


def forked(ranks, program, *imported):
    return [TOP / "tests" / "helpers" / "forked_torchrun.py", ranks, program, *imported]


def passed(outcome, checks):
    assert outcome.code == 0, outcome.err
    assert [line for line in outcome.out.splitlines() if not line.startswith(("{", "devtrace"))] == checks, outcome.out
    assert outcome.findings == [], outcome.err
    assert "not computed in this rehearsal" not in outcome.err and "not simulated" not in outcome.err, outcome.err
    assert "devtrace: NCCL:" not in outcome.err, outcome.err


@pytest.mark.parametrize("ranks", LAUNCHED)
def test_data_parallel_by_torchrun(rehearse, ranks):
    passed(rehearse(torchrun(ranks, PROGRAMS / "data_parallel.py"), gpus=ranks, env=ONE_THREAD, timeout=LONGEST), REPLICATED)


@pytest.mark.parametrize("ranks", LAUNCHED)
def test_data_parallel_by_spawning(rehearse, ranks):
    passed(rehearse([PROGRAMS / "spawned.py", "spawn", ranks], gpus=ranks, timeout=LONGEST), REPLICATED)


@pytest.mark.parametrize("ranks", FORKED)
def test_data_parallel_by_forking(rehearse, ranks):
    passed(rehearse([PROGRAMS / "spawned.py", "fork", ranks], gpus=ranks), REPLICATED)


def test_split_models_and_a_checkpoint_of_another_world_size(rehearse):
    for ranks in (2, 4):
        passed(rehearse(forked(ranks, PROGRAMS / "split_models.py", "transformers.models.llama"), gpus=ranks), SPLIT)


@pytest.mark.slow
def test_split_models_of_more_ranks(rehearse):
    for ranks in (8, 2):
        passed(rehearse(torchrun(ranks, PROGRAMS / "split_models.py"), gpus=ranks, env=ONE_THREAD, timeout=LONGEST), SPLIT)


@pytest.mark.parametrize("ranks", LAUNCHED)
def test_trainers_by_accelerate_launch(rehearse, ranks):
    launch = ["-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", ranks]
    passed(rehearse([*launch, PROGRAMS / "trainers.py"], gpus=ranks, env=ONE_THREAD, timeout=LONGEST), TRAINERS)


@pytest.mark.slow
@pytest.mark.parametrize("ranks", first(1, FORKED))
def test_trainers_of_more_ranks(rehearse, ranks):
    passed(rehearse(forked(ranks, PROGRAMS / "trainers.py", "accelerate", "lightning", "transformers"), gpus=ranks, timeout=LONGEST), TRAINERS)
