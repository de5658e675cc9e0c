"""Sessions' caches, allocated where the blocks compute."""

import torch


class MemoryCache:
    def __init__(self, device: torch.device):
        self.device = device
        self.buffers = {}

    def allocate(self, shape: tuple[int, ...]) -> int:
        handle = len(self.buffers)
        self.buffers[handle] = torch.zeros(shape, device=self.device)
        return handle

    def read(self, handle: int, prefix: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values of the first `prefix` tokens, each [batch, heads, prefix, width]."""
        keys, values = self.buffers[handle][..., :prefix, :]
        return keys, values

    def write(self, handle: int, prefix: int, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Keys and values with the new tokens; the first `prefix` are there already."""
        new = torch.stack((keys, values))[..., prefix:, :]
        self.buffers[handle][..., prefix : prefix + new.shape[-2], :] = new
