import torch
from torch import nn


class Environment(nn.Module):
    """Points that are pushed about."""

    def __init__(self, width, count):
        super().__init__()
        self.transforms = nn.ModuleList()
        self.register_buffer("state", torch.zeros(count, width))

    def append_transform(self, transform):
        self.transforms.append(transform)

    def _observed(self):
        value = self.state
        for transform in self.transforms:
            value = transform(value)
        return value

    def reset(self):
        self.state.zero_()
        return self._observed()

    def step(self, action):
        self.state = 0.9 * self.state + action
        return self._observed()
