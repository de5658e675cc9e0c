"""What torchrun does for a program of several ranks, for tests: they are forks of one process that has imported PyTorch, which costs a fraction.

    forked_torchrun.py RANKS PROGRAM [MODULE…], which the ranks have imported, too
"""

import importlib
import multiprocessing
import os
import runpy
import socket
import sys
import time

import torch
import torch.distributed


def run(rank, world, port, program):
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world), LOCAL_WORLD_SIZE=str(world), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
                      TORCHELASTIC_RUN_ID="none")
    sys.argv = [program]
    sys.path.insert(0, os.path.dirname(os.path.abspath(program)))
    torch.set_num_threads(1)
    runpy.run_path(program, run_name="__main__")


def main(world, program):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ranks = [multiprocessing.get_context("fork").Process(target=run, args=(rank, world, port, program)) for rank in range(world)]
    for each in ranks:
        each.start()
    end = time.monotonic() + float(os.environ.get("RANKS_END_AFTER", 1e9))  # of a job that would hang
    while any(each.exitcode is None for each in ranks) and not any(each.exitcode for each in ranks) and time.monotonic() < end:
        time.sleep(0.02)
    for each in ranks:  # as torchrun: where one has failed the others are ended
        each.join(1)
        if each.exitcode is None:
            each.terminate()
            each.join()
    sys.exit(max(abs(each.exitcode) for each in ranks))


if __name__ == "__main__":
    for name in sys.argv[3:]:
        importlib.import_module(name)
    main(int(sys.argv[1]), sys.argv[2])
