"""DistributedDataParallel over gloo, a device a process, started by torchrun. Alone, and with `cpu`, one process has all of the data on
the CPU. The first process prints the losses (of all data) and the weights as JSON."""

import json
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main():
    torch.set_num_threads(1)
    torch.manual_seed(7)
    model = nn.Sequential(nn.Linear(12, 32), nn.Tanh(), nn.Linear(32, 4))
    inputs, targets = torch.randn(16, 12), torch.randn(16, 4)
    rank, world, device = 0, 1, "cpu"
    if "cpu" not in sys.argv:
        dist.init_process_group("gloo")
        rank, world = dist.get_rank(), dist.get_world_size()
        device = f"cuda:{os.environ['LOCAL_RANK']}"
        torch.cuda.set_device(device)
        model = DistributedDataParallel(model.to(device), device_ids=[rank])
    mine = slice(rank * 16 // world, (rank + 1) * 16 // world)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    losses = []
    for _ in range(8):
        loss = nn.functional.mse_loss(model(inputs[mine].to(device)), targets[mine].to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total = loss.detach().clone()
        if world > 1:
            dist.all_reduce(total)
        losses.append(total.item() / world)
    if world > 1:
        gathered = [torch.zeros_like(total) for _ in range(world)]
        dist.all_gather(gathered, loss.detach())
        assert abs(sum(gathered).item() / world - losses[-1]) < 1e-5
    if rank == 0:
        print(json.dumps({"losses": losses, "weights": [parameter.sum().item() for parameter in model.parameters()]}))
    if world > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
