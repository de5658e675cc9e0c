# === only_rank_zero_reduces
# thread: https://github.com/pytorch/pytorch/issues/50921
# about: what rank 0 alone logs is a collective; the next one of the others meets it
# kind: collective-mismatch
# category: different-collectives|different-sizes
# line: print("mean loss", round(log_loss(loss).item(), 3))
# line: if rank == 0:
# line: dist.broadcast(weights, 0)
# line: dist.reduce(mean, 0
# repair: if rank == 0: -> if True:
import os

import torch
import torch.distributed as dist

def log_loss(loss):
    mean = loss.detach().clone()
    dist.reduce(mean, 0, op=dist.ReduceOp.AVG)
    return mean

rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
weights = torch.full((4,), float(rank), device="cuda")
loss = torch.tensor(1.0 + rank, device="cuda")
if rank == 0:
    print("mean loss", round(log_loss(loss).item(), 3))
dist.broadcast(weights, 0)
if rank == 1:
    print("weights", weights.tolist())
dist.destroy_process_group()

# === last_batch
# thread: https://github.com/microsoft/DeepSpeed/issues/7266
# about: the last batch of a rank is smaller, and what is gathered has another size
# kind: collective-mismatch
# category: different-sizes
# line: dist.all_gather(parts, scores)
# line: scores = batch * 2
# line: batches = samples.split(2)
# line: samples = torch.arange(
# repair: samples = torch.arange(4.0 - rank, device="cuda") -> samples = torch.arange(4.0, device="cuda")
import os

import torch
import torch.distributed as dist

rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
samples = torch.arange(4.0 - rank, device="cuda")
batches = samples.split(2)
gathered = []
for batch in batches:
    scores = batch * 2
    parts = [torch.empty_like(scores) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, scores)
    gathered += [part.sum().item() for part in parts]
if rank == 0:
    print("sum", sum(gathered))
dist.destroy_process_group()

# === early_stop
# thread: https://github.com/kohya-ss/sd-scripts/issues/1925
# about: one rank finds nothing to do and ends; the other one waits for it
# kind: collective-stalled
# category: rank-ended
# line: if not work:
# line: sys.exit(0)
# line: dist.all_reduce(done)
# line: work = list(range(rank, 1, 2))
# repair: sys.exit(0) -> pass
import os
import sys

import torch
import torch.distributed as dist

rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
done = torch.zeros(1, device="cuda")
dist.all_reduce(done)
work = list(range(rank, 1, 2))
if not work:
    sys.exit(0)
done += len(work)
dist.all_reduce(done)
print("done", done.item())
os._exit(0)

# === wrapped_on_first_device
# thread: https://github.com/ShihaoZhaoZSH/DEIM/issues/113
# about: the model is on the rank's device, and the wrapper is given the number of rank 0
# operation: torch.nn.parallel.DistributedDataParallel|torch.nn.parallel.distributed.*|.*
# error: device_ids
# category: data-parallel|module-split|device-of-another-rank
# line: return DistributedDataParallel(model, device_ids=[0])
# line: model = model.to(device)
# repair: return DistributedDataParallel(model, device_ids=[0]) -> return DistributedDataParallel(model, device_ids=[device.index])
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

def wrap(model, device):
    model = model.to(device)
    return DistributedDataParallel(model, device_ids=[0])

local_rank = int(os.environ["LOCAL_RANK"])
device = torch.device("cuda", local_rank)
torch.cuda.set_device(device)
dist.init_process_group("nccl", device_id=device)
torch.manual_seed(2)
model = wrap(nn.Linear(2, 2), device)
model(torch.ones(1, 2, device=device)).sum().backward()
if local_rank == 0:
    print("bias", model.module.bias.grad.tolist())
dist.destroy_process_group()
