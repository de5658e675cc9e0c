import torch
from torch import nn


class VecNorm(nn.Module):
    """Brings what is observed to mean 0 and variance 1, by what was observed so far."""

    def __init__(self, decay, eps=1e-4):
        super().__init__()
        self.decay, self.eps = decay, eps
        self.ready = False

    def _maybe_init(self, value):
        if self.ready:
            return
        self._loc = torch.zeros_like(value[0])
        self._var = torch.zeros_like(value[0])
        self.ready = True

    def _update(self, value):
        weight = 1 - self.decay
        self._loc.lerp_(value.mean(0), weight)
        self._var.lerp_(value.square().mean(0), weight)

    def forward(self, value):
        self._maybe_init(value)
        self._update(value)
        scale = (self._var - self._loc.square()).clamp_min(self.eps).sqrt()
        return (value - self._loc) / scale
