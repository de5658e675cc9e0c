"""spawned.py METHOD WORLD: the ranks of data_parallel.py, as torch.multiprocessing starts them."""

import os
import runpy
import socket
import sys

import torch.multiprocessing as mp


def work(rank, world, port):
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    runpy.run_path(os.path.join(os.path.dirname(os.path.abspath(__file__)), "data_parallel.py"), run_name="__main__")


if __name__ == "__main__":
    method, world = sys.argv[1], int(sys.argv[2])
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mp.start_processes(work, (world, port), nprocs=world, start_method=method)
