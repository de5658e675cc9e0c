# thread: https://github.com/Tianxiaomo/pytorch-YOLOv4/issues/296
# about: the anchors are a plain tensor of the detection layer, which .cuda() does not move.
# category: state-not-registered
# operands: self.anchors cpu
# fails: return torch.exp(sizes) * self.anchors
# fix: self.register_buffer("anchors", torch.tensor([[12.0, 16.0], [19.0, 36.0], [40.0, 28.0]]), persistent=False)


import torch
from torch import nn


class YoloLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.anchors = torch.tensor([[12.0, 16.0], [19.0, 36.0], [40.0, 28.0]])
        self.head = nn.Conv2d(8, 6, 1)

    def forward(self, features):
        sizes = self.head(features).flatten(2).transpose(1, 2).unflatten(-1, (3, 2))
        return torch.exp(sizes) * self.anchors


layer = YoloLayer().cuda()
layer(torch.randn(1, 8, 5, 5).cuda())
