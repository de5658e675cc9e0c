import torch
from torch import nn


class Network(nn.Module):
    """An energy from the distances of atoms."""

    def __init__(self, bases, width, fused=False):
        super().__init__()
        self.config = dict(bases=bases, width=width)
        self.fused = fused
        self.radial = nn.Linear(bases, width, bias=False)
        self.readout = nn.Linear(width, 1)

    def forward(self, lengths):
        bases = [torch.exp(-lengths / (k + 1)) for k in range(self.config["bases"])]
        features = self.radial(torch.stack(bases, dim=-1))
        return self.readout(torch.tanh(features).sum(0)).sum()
