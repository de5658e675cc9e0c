# === set_device_forgotten
# thread: https://github.com/csguoh/MambaIR/issues/39
# about: a model by `.cuda()`, wrapped by DistributedDataParallel, and no rank has chosen a device
# kind: duplicate-device
# category: missing-set-device
# line: dist.init_process_group("nccl")
# line: rank, world_size = setup()
# repair: dist.init_process_group("nccl") -> dist.init_process_group("nccl"); torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

def setup():
    dist.init_process_group("nccl")
    return dist.get_rank(), dist.get_world_size()

def main():
    rank, world_size = setup()
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Linear(4, 1).cuda())
    inputs = torch.full((2, 4), float(rank + 1)).cuda()
    loss = model(inputs).square().mean()
    loss.backward()
    if rank == 0:
        print("gradient", [round(value, 3) for value in model.module.weight.grad.flatten().tolist()])
    dist.destroy_process_group()

main()

# === default_gpu
# thread: https://github.com/Peterande/D-FINE/issues/289
# about: the device comes from an option whose default is 0 for every rank
# kind: duplicate-device
# category: device-chosen-twice
# line: torch.cuda.set_device(args.gpu)
# line: parser.add_argument("--gpu"
# line: args = parse()
# repair: torch.cuda.set_device(args.gpu) -> torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
import argparse
import os

import torch
import torch.distributed as dist

def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpu", type=int, default=0)
    parser.add_argument("--scale", type=float, default=2.0)
    return parser.parse_args()

args = parse()
torch.cuda.set_device(args.gpu)
dist.init_process_group(backend="nccl", init_method="env://")
counts = torch.tensor([float(dist.get_rank() + 1)], device="cuda")
dist.all_reduce(counts)
if dist.get_rank() == 0:
    print("sum", counts.item() * args.scale)
dist.destroy_process_group()

# === objects_first
# thread: https://github.com/pytorch/pytorch/issues/75619
# about: all_gather_object takes the current device, which is every rank's first; the device is chosen below
# kind: duplicate-device
# category: missing-set-device
# line: dist.init_process_group("nccl")
# line: dist.all_gather_object(names,
# line: torch.cuda.set_device(local)
# repair: names = [None] * dist.get_world_size() -> torch.cuda.set_device(local); names = [None] * dist.get_world_size()
import os

import torch
import torch.distributed as dist

local = int(os.environ["LOCAL_RANK"])
dist.init_process_group("nccl")
names = [None] * dist.get_world_size()
dist.all_gather_object(names, f"worker{local}")
torch.cuda.set_device(local)
total = torch.ones(1, device="cuda")
dist.all_reduce(total)
if local == 0:
    print(names, total.item())
dist.destroy_process_group()

# === barrier_before_device
# thread: https://github.com/pytorch/pytorch/issues/15051
# about: rank 0 prepares the data while the others wait in a barrier, before any of them has chosen its device
# kind: duplicate-device
# category: missing-set-device
# line: dist.init_process_group("nccl")
# line: self.device = torch.device("cuda", self.local_rank)
# line: self.prepare(size)
# line: torch.cuda.set_device(self.device)
# line: total = torch.zeros(1).cuda()
# repair: self.prepare(size) -> torch.cuda.set_device(self.local_rank); self.prepare(size)
import os

import torch
import torch.distributed as dist

class Trainer:
    def __init__(self, size):
        dist.init_process_group("nccl")
        self.local_rank = int(os.environ["LOCAL_RANK"])
        self.prepare(size)
        self.device = torch.device("cuda", self.local_rank)

    def prepare(self, size):
        total = torch.zeros(1).cuda()
        if self.local_rank == 0:
            self.data = torch.arange(size).float()
        dist.broadcast(total, 0)
        if self.local_rank != 0:
            self.data = torch.arange(size).float()

    def run(self):
        mean = self.data.to(self.device).mean()
        dist.all_reduce(mean, op=dist.ReduceOp.AVG)
        return mean.item()

trainer = Trainer(6)
mean = trainer.run()
if dist.get_rank() == 0:
    print("mean", mean)
dist.destroy_process_group()

# === chosen_too_late
# thread: https://github.com/volcengine/verl/issues/161
# about: the model is on the GPU before the rank's device is chosen
# kind: duplicate-device
# category: device-chosen-late
# line: model = Policy().cuda()
# line: dist.init_process_group("nccl")
# line: torch.cuda.set_device(local_rank)
# line: return DistributedDataParallel(model, device_ids=[local_rank])
# repair: model = Policy().cuda() -> torch.cuda.set_device(local_rank); model = Policy().cuda()
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(3, 2)

    def forward(self, state):
        return self.head(state).log_softmax(-1)

def build(local_rank):
    torch.manual_seed(1)
    model = Policy().cuda()
    torch.cuda.set_device(local_rank)
    return DistributedDataParallel(model, device_ids=[local_rank])

local_rank = int(os.environ["LOCAL_RANK"])
dist.init_process_group("nccl")
policy = build(local_rank)
log_probability = policy(torch.ones(2, 3, device=torch.device("cuda", local_rank)))
log_probability[:, 0].mean().backward()
if dist.get_rank() == 0:
    print("head", [round(value, 3) for value in policy.module.head.bias.grad.tolist()])
dist.destroy_process_group()

# === index_of_nothing
# thread: https://github.com/NVIDIA/Megatron-LM/issues/661
# about: the rank's device is counted from the environment's variable of another launcher, which is not set here
# kind: duplicate-device
# category: device-chosen-twice
# line: local_rank = int(os.environ.get("SLURM_LOCALID", 0))
# line: torch.cuda.set_device(local_rank)
# repair: local_rank = int(os.environ.get("SLURM_LOCALID", 0)) -> local_rank = int(os.environ["LOCAL_RANK"])
import os

import torch
import torch.distributed as dist

def initialize():
    local_rank = int(os.environ.get("SLURM_LOCALID", 0))
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    return torch.device("cuda", local_rank)

device = initialize()
shard = torch.full((2,), float(dist.get_rank()), device=device)
parts = [torch.empty_like(shard) for _ in range(dist.get_world_size())]
dist.all_gather(parts, shard)
if dist.get_rank() == 0:
    print("parts", [part.tolist() for part in parts])
dist.destroy_process_group()

# === visible_devices_too_late
# thread: https://github.com/volcengine/verl/issues/1096
# about: each worker leaves itself one device in the environment, when CUDA has counted them already
# kind: duplicate-device
# category: missing-set-device
# line: os.environ["CUDA_VISIBLE_DEVICES"] = str(self.local_rank)
# line: dist.init_process_group("nccl")
# line: self.device = torch.device("cuda")
# repair: self.device = torch.device("cuda") -> self.device = torch.device("cuda", self.local_rank); torch.cuda.set_device(self.device)
import os

import torch
import torch.distributed as dist

class Worker:
    def __init__(self):
        self.local_rank = int(os.environ["LOCAL_RANK"])
        self.devices = torch.cuda.device_count()
        torch.cuda.init()
        os.environ["CUDA_VISIBLE_DEVICES"] = str(self.local_rank)
        self.device = torch.device("cuda")
        dist.init_process_group("nccl")

    def agree(self, value):
        total = torch.tensor([value], device=self.device)
        dist.all_reduce(total)
        return total.item()

worker = Worker()
value = worker.agree(1.5 + worker.local_rank)
if worker.local_rank == 0:
    print("agreed", value, "of", worker.devices)
dist.destroy_process_group()
