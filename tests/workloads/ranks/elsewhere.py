# === metric_on_first_device
# thread: https://github.com/pytorch/pytorch/issues/46897
# about: a metric is made on "cuda:0" by every rank, for the group that works on the rank's own device
# operation: torch.distributed.all_reduce on cuda:0
# category: device-of-another-rank
# line: metrics.py: return torch.tensor([correct, seen], dtype=torch.float64, device="cuda:0")
# line: metrics.py: dist.all_reduce(counts)
# repair: metrics.py: return torch.tensor([correct, seen], dtype=torch.float64, device="cuda:0") -> return torch.tensor([correct, seen], dtype=torch.float64, device="cuda")
import os

import torch
import torch.distributed as dist

from metrics import accuracy

local_rank = int(os.environ["LOCAL_RANK"])
device = torch.device("cuda", local_rank)
torch.cuda.set_device(device)
dist.init_process_group("nccl", device_id=device)
predictions = torch.tensor([0, 1, 1], device=device)
labels = torch.tensor([0, 1, local_rank], device=device)
value = accuracy(predictions, labels)
if local_rank == 0:
    print("accuracy", round(value, 3))
dist.destroy_process_group()
# --- metrics.py
import torch
import torch.distributed as dist

def tally(predictions, labels):
    correct, seen = (predictions == labels).sum().item(), labels.numel()
    return torch.tensor([correct, seen], dtype=torch.float64, device="cuda:0")

def accuracy(predictions, labels):
    counts = tally(predictions, labels)
    dist.all_reduce(counts)
    return (counts[0] / counts[1]).item()

# === flag_left_on_host
# thread: https://github.com/pytorch/pytorch/issues/76865
# about: the flag by which ranks agree to stop is a tensor of the host's
# error: No backend type associated with device type cpu
# operation: torch.distributed.all_reduce|.*
# category: input-not-moved|created-without-device
# line: stop = torch.tensor(
# line: dist.all_reduce(stop
# repair: stop = torch.tensor([float(loss < limit)]) -> stop = torch.tensor([float(loss < limit)], device=device)
import os

import torch
import torch.distributed as dist

def agreed(loss, limit, device):
    stop = torch.tensor([float(loss < limit)])
    dist.all_reduce(stop, op=dist.ReduceOp.MAX)
    return stop.item() > 0

local_rank = int(os.environ["LOCAL_RANK"])
device = torch.device("cuda", local_rank)
torch.cuda.set_device(device)
dist.init_process_group("nccl", device_id=device)
steps = 0
loss = 1.0 + local_rank
while not agreed(loss, 0.3, device):
    loss *= 0.5
    steps += 1
if local_rank == 0:
    print("steps", steps)
dist.destroy_process_group()

# === checkpoint_of_rank_zero
# thread: https://github.com/pytorch/pytorch/issues/47885
# about: every rank reads the checkpoint to where rank 0 had it, and averages it
# operation: torch.distributed.all_reduce|torch.distributed.broadcast
# category: checkpoint-device|device-of-another-rank
# line: state = torch.load(
# line: dist.all_reduce(average
# line: average = state["average"]
# repair: state = torch.load(path) -> state = torch.load(path, map_location=device)
import os

import torch
import torch.distributed as dist

def resume(path, device):
    state = torch.load(path)
    average = state["average"]
    dist.all_reduce(average, op=dist.ReduceOp.AVG)
    return average

local_rank = int(os.environ["LOCAL_RANK"])
device = torch.device("cuda", local_rank)
torch.cuda.set_device(device)
dist.init_process_group("nccl", device_id=device)
if local_rank == 0:
    torch.save({"average": torch.arange(3.0, device=device)}, "average.pt")
dist.barrier()
average = resume("average.pt", device)
if local_rank == 0:
    print("average", average.tolist())
dist.destroy_process_group()

# === batch_to_first_device
# thread: https://github.com/facebookresearch/fairchem/issues/597
# about: the loader of every rank brings its batches to "cuda:0"
# operation: aten::addmm on cuda:0, cuda:1
# category: input-not-moved
# line: loader.py: yield batch.to("cuda:0")
# line: for batch in batches(local_rank):
# line: output = model(batch)
# repair: loader.py: yield batch.to("cuda:0") -> yield batch.to(torch.device("cuda", rank))
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from loader import batches

local_rank = int(os.environ["LOCAL_RANK"])
device = torch.device("cuda", local_rank)
torch.cuda.set_device(device)
dist.init_process_group("nccl", device_id=device)
torch.manual_seed(3)
model = DistributedDataParallel(nn.Linear(3, 1).to(device))
total = torch.zeros((), device=device)
for batch in batches(local_rank):
    output = model(batch)
    total += output.sum().detach()
dist.all_reduce(total)
if local_rank == 0:
    print("total", round(total.item(), 3))
dist.destroy_process_group()
# --- loader.py
import torch

def batches(rank):
    for step in range(2):
        batch = torch.full((2, 3), float(rank + step))
        yield batch.to("cuda:0")

# === objects_on_first_device
# thread: https://github.com/pytorch/pytorch/issues/79034
# about: a list of objects is broadcast over a device that every rank names alike
# operation: torch.distributed.broadcast.*|.*
# category: device-of-another-rank
# line: dist.broadcast_object_list(settings, src=0, device=torch.device("cuda:0"))
# repair: dist.broadcast_object_list(settings, src=0, device=torch.device("cuda:0")) -> dist.broadcast_object_list(settings, src=0, device=torch.device("cuda", local_rank))
import os

import torch
import torch.distributed as dist

local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
dist.init_process_group("nccl", device_id=torch.device("cuda", local_rank))
settings = [{"width": 4}] if local_rank == 0 else [None]
dist.broadcast_object_list(settings, src=0, device=torch.device("cuda:0"))
total = torch.full((1,), float(settings[0]["width"]), device="cuda")
dist.all_reduce(total)
if local_rank == 0:
    print("total", total.item())
dist.destroy_process_group()
