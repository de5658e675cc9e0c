import torch
from torch import nn

from functional import dequantize_4bit, quantize_4bit


class Linear4bit(nn.Module):
    def __init__(self, linear):
        super().__init__()
        device = torch.device("cuda", torch.cuda.current_device())
        packed, self.quant_state = quantize_4bit(linear.weight.data.to(device))
        self.register_buffer("packed", packed)
        self.bias = nn.Parameter(linear.bias.data.to(device))

    def _apply(self, fn, recurse=True):
        super()._apply(fn, recurse)
        self.quant_state.to(self.packed.device)
        return self

    def forward(self, x):
        weight = dequantize_4bit(self.packed, self.quant_state)
        return nn.functional.linear(x, weight, self.bias)
