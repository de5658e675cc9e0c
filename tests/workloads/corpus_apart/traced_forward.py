# EXPECT {"kind":"refused-op","operation":"conv","devices":["cuda:0","cuda:1"],"operands":["x|input|images","weight|bias"],"category":"data parallel","line":["layer.forward = traced(","forward = traced("],"error":"on the same device","thread":"https://github.com/openvinotoolkit/nncf/pull/3310","hard":"what the replicas copy is a forward that is bound to the first module"}
# FIX layer.forward = traced(layer.forward, name, record) -> type(layer).forward = traced(type(layer).forward, name, record)
import functools

import torch
from torch import nn


class QuantConv(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 1)
        self.step = 0.125

    def forward(self, x):
        x = torch.round(x / self.step) * self.step
        return self.conv(x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(1, 4, 3)
        self.quant = QuantConv(4)

    def forward(self, x):
        return self.quant(torch.relu(self.stem(x))).mean(dim=(2, 3))


def traced(forward, name, record):
    @functools.wraps(forward)
    def wrapper(*args):
        out = forward(*args)
        record[name] = max(record.get(name, 0), out.abs().max().item())
        return out

    return wrapper


def trace(net, kind):
    """Notes the largest value that any layer of a kind has put out."""
    record = {}
    for name, layer in net.named_modules():
        if isinstance(layer, kind):
            layer.forward = traced(layer.forward, name, record)
    return record


torch.manual_seed(3310)
net = Net().to("cuda:0").eval()
ranges = trace(net, QuantConv)
parallel_net = nn.DataParallel(net, device_ids=[0, 1])
with torch.no_grad():
    out = parallel_net(torch.rand(6, 1, 5, 5).to("cuda:0"))
print(sorted(ranges), round(out.sum().item(), 4))
