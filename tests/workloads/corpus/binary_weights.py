# EXPECT {"kind":"refused-op","operation":"copy|add|mul|sub|where|lerp","devices":["cuda:0","cpu"],"operands":["self.original|original","weight|self.weight|sign"],"category":"cached state|state not registered","line":["self.original = self.weight","latent = self.original"],"error":"on the same device","thread":"https://github.com/mzemlyanikin/binary-nets/issues/1","hard":"a copy of a parameter, made in the first run on the CPU"}
# FIX latent = self.original * 0.5 + self.weight.detach() * 0.5 -> latent = self.original.to(self.weight.device) * 0.5 + self.weight.detach() * 0.5
import torch
from torch import nn
from torch.nn import functional as F


class BinaryLinear(nn.Linear):
    """Uses the signs of its weights, and keeps what they were."""

    original = None

    def forward(self, x):
        if self.original is None:
            self.original = self.weight.detach().clone()
        latent = self.original * 0.5 + self.weight.detach() * 0.5
        return F.linear(x, latent.sign() * latent.abs().mean(), self.bias)


torch.manual_seed(0)
net = nn.Sequential(BinaryLinear(6, 8), nn.Hardtanh(), BinaryLinear(8, 2))
summary = tuple(net(torch.zeros(1, 6)).shape)
net.cuda()
with torch.no_grad():
    out = net(torch.ones(3, 6).cuda())
print("out", summary, round(out.sum().item(), 4))
