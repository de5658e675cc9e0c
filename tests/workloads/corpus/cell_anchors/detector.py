import torch
from torch import nn

from anchors import AnchorGenerator


class RegionProposals(nn.Module):
    def __init__(self, channels=4):
        super().__init__()
        self.body = nn.ModuleList((nn.Conv2d(3, channels, 5, stride=8, padding=2), nn.Conv2d(channels, channels, 3, stride=2, padding=1)))
        self.anchor_generator = AnchorGenerator()
        self.objectness = nn.Conv2d(channels, 3, 1)
        self.deltas = nn.Conv2d(channels, 3 * 4, 1)

    @staticmethod
    def decode(deltas, middles, sides):
        """Boxes from what the network says of the anchors: how far to shift them, and how much to stretch."""
        shift, stretch = deltas.split(2, dim=-1)
        wanted = middles + shift * sides
        half = sides * stretch.clamp(max=4).exp() / 2
        return torch.cat((wanted - half, wanted + half), dim=-1)

    def forward(self, images):
        features, x = [], images
        for layer in self.body:
            x = torch.relu(layer(x))
            features.append(x)
        scores = torch.cat([self.objectness(one).permute(0, 2, 3, 1).flatten(1) for one in features], dim=1)
        deltas = torch.cat([self.deltas(one).permute(0, 2, 3, 1).reshape(len(images), -1, 4) for one in features], dim=1)
        middles, sides = self.anchor_generator(features, images.shape[-1])
        return self.decode(deltas, middles, sides), scores
