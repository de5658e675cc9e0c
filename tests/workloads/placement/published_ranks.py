"""Two ranks of DistributedDataParallel with Adam, its state at each rank or sharded: what PyTorch's recipe about ZeroRedundancyOptimizer measures.

usage: published_ranks.py [--sharded]; rank 0 prints one line of JSON: bytes at the most, up to each of four moments.
"""

import argparse
import json
import os
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel


def work(rank, ranks, sharded, meeting):
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=ranks)
    peaks = {}
    model = torch.nn.Sequential(*[torch.nn.Linear(2000, 2000).to(rank) for _ in range(20)])
    peaks["model"] = torch.cuda.max_memory_allocated(rank)
    parallel = DistributedDataParallel(model, device_ids=[rank])
    peaks["DDP"] = torch.cuda.max_memory_allocated(rank)
    if sharded:
        optimizer = ZeroRedundancyOptimizer(parallel.parameters(), optimizer_class=torch.optim.Adam, lr=0.01, foreach=False)
    else:
        optimizer = torch.optim.Adam(parallel.parameters(), lr=0.01, foreach=False)  # in 2021 there was no other
    loss = torch.nn.MSELoss()(parallel(torch.randn(20, 2000).to(rank)), torch.randn(20, 2000).to(rank))
    loss.backward()
    peaks["backward"] = torch.cuda.max_memory_allocated(rank)
    optimizer.step()
    peaks["step"] = torch.cuda.max_memory_allocated(rank)
    dist.barrier()
    if rank == 0:
        os.write(1, (json.dumps(peaks) + "\n").encode())
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--sharded", action="store_true")
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(work, args=(2, parser.parse_args().sharded, f"{folder}/meeting"), nprocs=2)
