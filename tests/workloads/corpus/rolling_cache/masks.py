from dataclasses import dataclass

import torch


@dataclass
class CausalMask:
    """Tokens of several sequences, one behind the other: each sees those of its own sequence before it."""

    bias: torch.Tensor

    @classmethod
    def from_seqlens(cls, seqlens, device=None):
        device = torch.device("cuda") if device is None else device
        lengths = torch.tensor(seqlens, device=device)
        owner = torch.repeat_interleave(torch.arange(len(seqlens), device=device), lengths)
        position = torch.arange(len(owner), device=device)
        seen = (owner[:, None] == owner[None]) & (position[:, None] >= position[None])
        return cls(torch.zeros(seen.shape, device=device).masked_fill(~seen, float("-inf")))
