# EXPECT {"kind":"refused-op","operation":"mul","devices":["cuda:0","cuda:1"],"operands":["sizes|anchors","deltas"],"category":"cached state|data parallel","line":["anchors.py: key = (tuple(grid_sizes), tuple(strides))","anchors.py: if key in self._cache:"],"error":"on the same device","thread":"https://github.com/pytorch/vision/issues/1255","hard":"the replicas share the cache, which an image that went to the first device alone has filled"}
# FIX anchors.py: key = (tuple(grid_sizes), tuple(strides)) -> key = (tuple(grid_sizes), tuple(strides), device)
import torch
from torch import nn

from anchors import AnchorGenerator
from boxes import apply_deltas


class RegionProposalNetwork(nn.Module):
    def __init__(self, channels: int, strides: tuple[int, ...]):
        super().__init__()
        self.strides = strides
        self.levels = nn.ModuleList(nn.Conv2d(3, channels, kernel_size=s, stride=s) for s in strides)
        self.bbox_pred = nn.Conv2d(channels, 4, kernel_size=1)
        self.anchor_generator = AnchorGenerator(sizes=[2 * s for s in strides])

    def forward(self, images):
        feature_maps = [level(images) for level in self.levels]
        anchors = self.anchor_generator(feature_maps, self.strides)
        proposals = []
        for feature_map, level_anchors in zip(feature_maps, anchors):
            deltas = self.bbox_pred(feature_map).flatten(2).transpose(1, 2)
            proposals.append(apply_deltas(deltas, level_anchors))
        return torch.cat(proposals, dim=1)


if __name__ == "__main__":
    torch.manual_seed(7)
    rpn = nn.DataParallel(RegionProposalNetwork(5, strides=(4, 8)).to("cuda"), device_ids=[0, 1])
    dataset = torch.rand(5, 3, 16, 16)
    with torch.no_grad():
        first = rpn(dataset[:1])  # a look at one image before it starts
        rest = rpn(dataset[1:])
    print("proposals", list(first.shape), list(rest.shape), round(rest.sum().item(), 2))
