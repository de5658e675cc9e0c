# EXPECT {"kind":"refused-op","operation":"index","devices":["cuda:0","cuda:1"],"operands":["code","low|high|indices|nibbles"],"category":"state not registered|default or current device|cached state","line":["functional.py: self.absmax = self.absmax.to(device)","functional.py: code = torch.tensor(NF4","functional.py: values = state.code[nibbles]","main.py: transformer = quantize("],"error":"indices should be either on cpu or on the same device as the indexed tensor \\(cuda:0\\)","thread":"https://github.com/huggingface/diffusers/issues/10798","hard":"a side table of a packed weight stays where the weight was packed, with the first device current"}
# FIX functional.py: self.absmax = self.absmax.to(device) -> self.absmax, self.code = self.absmax.to(device), self.code.to(device)
import torch
from torch import nn

from linear4bit import Linear4bit


def quantize(module):
    """Every linear layer in four bits, packed on the device that is current."""
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            setattr(module, name, Linear4bit(child))
        else:
            quantize(child)
    return module


class FluxBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


torch.manual_seed(0)
transformer = quantize(nn.Sequential(FluxBlock(8), FluxBlock(8)))
transformer.to("cuda:1")
with torch.no_grad():
    latents = transformer(torch.randn(2, 5, 8).to("cuda:1"))
print("latents", tuple(latents.shape), round(latents.abs().sum().item(), 2))
