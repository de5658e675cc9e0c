"""Sharding: fully_shard and the optimizers' checks of several devices."""

import torch

from ..provokes import provokes
from .elementwise import HOST, ONE
from .parallel import one_process


@provokes("torch-fsdp-parameters-should-be-materialized-from-meta", "torch.distributed.fsdp.fully_shard|fully_shard|FSDPState._pre_forward", "meta", ONE)
def fully_shard_of_meta():
    one_process("nccl")
    from torch.distributed.fsdp import fully_shard

    model = torch.nn.Linear(2, 2, device="meta")
    fully_shard(model)
    return model(torch.ones(1, 2, device=ONE))


@provokes("torch-fsdp-parameters-should-be-materialized-on-cpu", "torch.distributed.fsdp.fully_shard|fully_shard|FSDPState._pre_forward", ONE, HOST)
def fully_shard_offloaded():
    one_process("nccl")
    from torch.distributed.fsdp import CPUOffloadPolicy, fully_shard

    model = torch.nn.Linear(2, 2)
    fully_shard(model, offload_policy=CPUOffloadPolicy())
    for parameter in model.parameters():
        parameter.data = parameter.data.to(ONE)
    return model(torch.ones(1, 2, device=ONE))


@provokes("torch-syncbatchnorm-layers-only-work-with-gpu-modules", "torch.nn.SyncBatchNorm|forward|SyncBatchNorm|torch.nn.parallel.DistributedDataParallel", HOST)
def synchronised_batch_norm_of_the_host():
    one_process()
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.SyncBatchNorm(2))
    return model(torch.ones(2, 2))
