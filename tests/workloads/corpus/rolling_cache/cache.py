from dataclasses import dataclass

import torch

from masks import CausalMask


@dataclass
class InputMetadata:
    positions: torch.Tensor
    mask: CausalMask


class BufferCache:
    def __init__(self, layers, width, size=16, device="cuda"):
        self.device = device
        self.keys = [torch.zeros(size, width, device=device) for _ in range(layers)]
        self.filled = 0

    def get_input_metadata(self, seqlens):
        positions = torch.cat([torch.arange(length) for length in seqlens]).to(self.device)
        mask = CausalMask.from_seqlens(seqlens)
        return InputMetadata(positions, mask)

    def update(self, layer, keys):
        self.keys[layer][: len(keys)] = keys
        return self.keys[layer][: len(keys)]
