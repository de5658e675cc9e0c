# thread: https://github.com/ROCm/aiter/issues/2489
# about: offsets within a block are made in every call, without a device.
# category: created-without-device
# operands: starts cuda:0, offsets cpu
# fails: slots = starts + offsets
# fix: offsets = torch.arange(block_size, device=starts.device)


import torch


def slots_of(block_table, block_size):
    starts = block_table[:, None] * block_size
    offsets = torch.arange(block_size)
    slots = starts + offsets
    return slots.flatten()


slots_of(torch.tensor([3, 1, 7]).cuda(), block_size=16)
