"""Ranks that are forks of one process that has imported PyTorch: they cost a fraction of what torchrun's cost."""

FORKED = """
import os, multiprocessing
import torch, torch.distributed as dist

def begin(job, work, world):
    def run(rank):
        torch.set_num_threads(1)
        os.environ["RANK"] = str(rank)
        torch.cuda.set_device(rank)
        dist.init_process_group("nccl", store=dist.FileStore(os.path.abspath(job), world), rank=rank, world_size=world,
                                device_id=torch.device("cuda", rank))
        work(rank, world)
        dist.destroy_process_group()
    ranks = [multiprocessing.get_context("fork").Process(target=run, args=(rank,)) for rank in range(world)]
    for each in ranks: each.start()
    return ranks

def end(job, ranks):
    for each in ranks: each.join()
    print(job, [each.exitcode for each in ranks], flush=True)
"""

# Behind a program that has WORLD and run(rank), which find the `store`: prints how each rank ended.
RUN_EACH = """
store = dist.FileStore(os.path.abspath("store"), -1)
ranks = [multiprocessing.get_context("fork").Process(target=run, args=(rank,)) for rank in range(WORLD)]
for each in ranks: each.start()
for each in ranks: each.join()
print([each.exitcode for each in ranks])
"""
