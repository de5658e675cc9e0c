import torch
from torch import nn


class AnchorGenerator(nn.Module):
    """At every place of a feature map some boxes of different shapes, as middles and sides."""

    def __init__(self, sizes=(8.0, 16.0), aspect_ratios=(0.5, 1.0, 2.0)):
        super().__init__()
        self.sizes, self.aspect_ratios = sizes, aspect_ratios
        self.cells = None

    def prepare_cells(self, device):
        if self.cells is not None:
            return
        shape = torch.tensor([[ratio**-0.5, ratio**0.5] for ratio in self.aspect_ratios], device=device)
        self.cells = [size * shape for size in self.sizes]

    def forward(self, features, image_size):
        self.prepare_cells(features[0].device)
        middles, sides = [], []
        for feature, cell in zip(features, self.cells):
            step = image_size / feature.shape[-1]
            axis = (torch.arange(feature.shape[-1], device=cell.device) + 0.5) * step
            places = torch.cartesian_prod(axis, axis)
            middles.append(places.repeat_interleave(len(cell), dim=0))
            sides.append(cell.repeat(len(places), 1))
        return torch.cat(middles), torch.cat(sides)
