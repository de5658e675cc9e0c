# EXPECT {"kind":"refused-op","operation":"randperm|random_","devices":["cpu"],"operands":[],"category":"generator|default or current device","line":["self.trainloader = DataLoader(","torch.set_default_device("],"error":"Expected a 'cuda' device type for generator but found 'cpu'","thread":"https://github.com/NarcissusEx/CuNeRF/issues/8","hard":"raised inside a sampler of PyTorch's; the line that matters is a setting of the whole program"}
# FIX self.trainloader = DataLoader(volume, batch_size=cfg.batch, shuffle=True) -> self.trainloader = DataLoader(volume, batch_size=cfg.batch, shuffle=True, generator=torch.Generator(device="cuda"))
from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


@dataclass
class Cfg:
    device: str = "cuda"
    size: int = 6
    batch: int = 4
    frequencies: int = 3


class Volume(Dataset):
    """Slices of a volume: where each voxel is, and how dense."""

    def __init__(self, size):
        axis = torch.linspace(-1, 1, size)
        self.where = torch.stack(torch.meshgrid(axis, axis, axis, indexing="ij"), dim=-1)
        self.density = torch.exp(-self.where.square().sum(-1))

    def __len__(self):
        return len(self.where)

    def __getitem__(self, index):
        return self.where[index].reshape(-1, 3), self.density[index].reshape(-1)


class Field(nn.Module):
    def __init__(self, frequencies):
        super().__init__()
        self.register_buffer("scales", 2.0 ** torch.arange(frequencies))
        self.net = nn.Sequential(nn.Linear(6 * frequencies, 16), nn.ReLU(), nn.Linear(16, 1), nn.Sigmoid())

    def forward(self, where):
        angles = (where[..., None] * self.scales).flatten(-2)
        return self.net(torch.cat((angles.sin(), angles.cos()), dim=-1)).squeeze(-1)


class Runner:
    def __init__(self, cfg):
        torch.set_default_device(cfg.device)
        volume = Volume(cfg.size)
        self.trainloader = DataLoader(volume, batch_size=cfg.batch, shuffle=True)
        self.field = Field(cfg.frequencies)

    @torch.no_grad()
    def evaluate(self):
        seen = 0
        for where, density in self.trainloader:
            error = (self.field(where) - density).abs()
            seen += int((error < 1).sum())
        return seen


torch.manual_seed(0)
print("voxels", Runner(Cfg()).evaluate())
