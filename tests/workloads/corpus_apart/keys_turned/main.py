# EXPECT {"kind":"refused-op","operation":"mul","devices":["cuda:0","cuda:1"],"operands":["delta_pos|selected|positions","inv_freq"],"category":"module split","line":["press.py: freqs = delta_pos.float()","press.py: module.rotary_emb.inv_freq"],"error":"on the same device","thread":"https://github.com/NVIDIA/kvpress/issues/240","hard":"one rotary embedding is shared by layers of both devices, and used past its forward, in a hook"}
# FIX press.py: freqs = delta_pos.float().unsqueeze(-1) * inv_freq.float() -> freqs = delta_pos.float().unsqueeze(-1) * inv_freq.float().to(delta_pos.device)
import torch
from torch import nn

from press import FinchLikePress


class Rotary(nn.Module):
    def __init__(self, head_dim: int, base: float = 100.0):
        super().__init__()
        inv_freq = base ** (-torch.arange(0, head_dim, 2).float() / head_dim)
        self.register_buffer("inv_freq", inv_freq, persistent=False)


class Attention(nn.Module):
    """Keeps its keys in `cache`; the positions are turned into them elsewhere."""

    def __init__(self, dim: int):
        super().__init__()
        self.k_proj = nn.Linear(dim, dim, bias=False)
        self.o_proj = nn.Linear(dim, dim, bias=False)
        self.cache = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.cache = self.k_proj(x)
        return x + self.o_proj(self.cache.cumsum(1).tanh())


class Model(nn.Module):
    def __init__(self, dim: int, devices: list[str]):
        super().__init__()
        self.devices = devices
        self.layers = nn.ModuleList(Attention(dim).to(device) for device in devices)
        self.rotary_emb = Rotary(dim).to(devices[0])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer, device in zip(self.layers, self.devices):
            x = layer(x.to(device))
        return x


torch.manual_seed(240)
model = Model(8, ["cuda:0", "cuda:0", "cuda:1", "cuda:1"])
with torch.no_grad(), FinchLikePress(ratio=0.5)(model):
    model(torch.randn(1, 10, 8).to("cuda:0"))
sums = [round(layer.cache.abs().sum().item(), 3) for layer in model.layers]
print("kept", [layer.cache.shape[1] for layer in model.layers], sums)
