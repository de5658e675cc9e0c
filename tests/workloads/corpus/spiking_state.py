# EXPECT {"kind":"refused-op","operation":"mul|add|sub","devices":["cpu","cuda:0"],"operands":["self.mem|mem","x|input_|current"],"category":"cached state|state not registered","line":["self.mem = self.beta","self.mem = None","self.mem = torch.zeros_like("],"error":"on the same device","thread":"https://github.com/jeshraghian/snntorch/issues/225","hard":"the state of the last run on the GPU is in a plain attribute when the network goes to the CPU"}
# FIX self.mem = self.beta * self.mem + x -> self.mem = self.beta * self.mem.to(x.device) + x
import torch
from torch import nn


class Leaky(nn.Module):
    """A leaky integrate and fire neuron that keeps its potential from one call to the next."""

    def __init__(self, beta, threshold=0.5):
        super().__init__()
        self.register_buffer("beta", torch.tensor(beta))
        self.threshold = threshold
        self.mem = None

    def forward(self, x):
        if self.mem is None:
            self.mem = torch.zeros_like(x)
        self.mem = self.beta * self.mem + x
        spikes = (self.mem > self.threshold).float()
        self.mem = self.mem - spikes * self.threshold
        return spikes


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 8), Leaky(0.9), nn.Linear(8, 2), Leaky(0.8))

    def forward(self, x):
        return torch.stack([self.layers(frame) for frame in x]).sum(0)


torch.manual_seed(0)
net = Net().to("cuda:0")
frames = torch.rand(5, 3, 6)
with torch.no_grad():
    there = net(frames.to("cuda:0")).sum().item()
    net.to("cpu")
    here = net(frames).sum().item()
print("spikes", there, here)
