# thread: https://github.com/pytorch/pytorch/issues/36035
# about: what is neither parameter nor buffer stays on the first device in every replica of nn.DataParallel.
# category: data-parallel
# operands: self.scale cuda:0
# fails: return self.linear(x) * self.scale
# fix: self.register_buffer("scale", torch.rand(5).to("cuda:0"), persistent=False)



import torch
from torch import nn


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(5, 5)
        self.scale = torch.rand(5).to("cuda:0")

    def forward(self, x):
        return self.linear(x) * self.scale


model = nn.DataParallel(Scaled().to("cuda:0"), device_ids=[0, 1])
model(torch.randn(8, 5).to("cuda:0"))
