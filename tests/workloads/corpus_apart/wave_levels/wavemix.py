import torch
from torch import nn

from wavelets import xf1, xf2


class WaveBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.reduction = nn.Conv2d(dim, dim // 2, 1)
        self.fine = nn.ConvTranspose2d(2 * dim, dim, 2, stride=2)
        self.rest = nn.ConvTranspose2d(2 * dim, dim, 4, stride=4)
        self.norm = nn.BatchNorm2d(dim)

    def forward(self, inputs):
        x = self.reduction(inputs)
        bands = xf1(x)
        coarse = xf2(x)
        return inputs + self.norm(self.fine(bands) + self.rest(coarse))


class WaveMix(nn.Module):
    def __init__(self, num_classes, dim, depth):
        super().__init__()
        self.stem = nn.Conv2d(3, dim, 3, padding=1)
        self.layers = nn.ModuleList(WaveBlock(dim) for _ in range(depth))
        self.head = nn.Linear(dim, num_classes)

    def forward(self, images):
        x = self.stem(images)
        for block in self.layers:
            x = torch.relu(block(x))
        return self.head(x.mean(dim=(2, 3)))
