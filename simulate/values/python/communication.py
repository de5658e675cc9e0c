"""Copies between the devices of one process without NCCL, which no simulation stands under: nn.DataParallel's broadcasts and sums."""

import torch


def _device(one):
    return one if isinstance(one, torch.device) else torch.device("cuda", int(one)) if int(one) >= 0 else torch.device("cpu")


def broadcast(tensor, devices):
    return tuple(tensor if tensor.device == d else tensor.to(d, non_blocking=True) for d in map(_device, devices))


def broadcast_out(tensor, outputs):
    for out in outputs:
        out.copy_(tensor, non_blocking=True)
    return tuple(outputs)


def broadcast_coalesced(tensors, devices, buffer_size):
    return [list(each) for each in zip(*(broadcast(t, devices) for t in tensors))]


def install():
    for name, function in (("_broadcast", broadcast), ("_broadcast_out", broadcast_out), ("_broadcast_coalesced", broadcast_coalesced)):
        if hasattr(torch._C, name):
            setattr(torch._C, name, function)
    torch.cuda.nccl.is_available = lambda tensors: False
