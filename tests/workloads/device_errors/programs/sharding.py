"""Sharding: fully_shard and the optimizers' checks of several devices."""

import os

import torch

ONE = "cuda:0"


def one_process(backend="gloo"):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", RANK="0", WORLD_SIZE="1")
    torch.distributed.init_process_group(backend, store=torch.distributed.HashStore(), rank=0, world_size=1)

# === fully_shard_of_meta
# message: torch-fsdp-parameters-should-be-materialized-from-meta
# operation: torch.distributed.fsdp.fully_shard|fully_shard|FSDPState._pre_forward on meta, cuda:0
def fully_shard_of_meta():
    one_process("nccl")
    from torch.distributed.fsdp import fully_shard

    model = torch.nn.Linear(2, 2, device="meta")
    fully_shard(model)
    return model(torch.ones(1, 2, device=ONE))

# === fully_shard_offloaded
# message: torch-fsdp-parameters-should-be-materialized-on-cpu
# operation: torch.distributed.fsdp.fully_shard|fully_shard|FSDPState._pre_forward on cuda:0, cpu
def fully_shard_offloaded():
    one_process("nccl")
    from torch.distributed.fsdp import CPUOffloadPolicy, fully_shard

    model = torch.nn.Linear(2, 2)
    fully_shard(model, offload_policy=CPUOffloadPolicy())
    for parameter in model.parameters():
        parameter.data = parameter.data.to(ONE)
    return model(torch.ones(1, 2, device=ONE))

# === synchronised_batch_norm_of_the_host
# message: torch-syncbatchnorm-layers-only-work-with-gpu-modules
# operation: torch.nn.SyncBatchNorm|forward|SyncBatchNorm|torch.nn.parallel.DistributedDataParallel on cpu
def synchronised_batch_norm_of_the_host():
    one_process()
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.SyncBatchNorm(2))
    return model(torch.ones(2, 2))
