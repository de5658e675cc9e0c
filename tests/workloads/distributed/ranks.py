"""What the programs of this folder have in common: a rank of torchrun's with its device, and the comparison with one process on the CPU."""

import os

import torch
import torch.distributed as dist

rank, world, local = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
device = torch.device("cuda", local)


def begin():
    torch.set_num_threads(1)
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)


def whole(tensor):
    """A tensor's value, wherever its parts are."""
    tensor = tensor.detach()
    return (tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor).cpu()


def same(got, wanted, rtol=1e-5, atol=1e-6):
    torch.testing.assert_close([whole(each) for each in got], [each.detach() for each in wanted], rtol=rtol, atol=atol)


def run(checks):
    """Each prints its name when it has passed on all ranks."""
    begin()
    for check in checks:
        check()
        dist.barrier()
        if rank == 0:
            print(check.__name__, flush=True)
    dist.destroy_process_group()
