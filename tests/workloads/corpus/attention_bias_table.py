# EXPECT {"kind":"refused-op","operation":"add","devices":["cuda:0","cpu"],"operands":["self.ab|ab"],"category":"state not registered","line":["self.ab = self.attention_biases[","scores = (q @ k.transpose","else self.ab"],"error":"on the same device","thread":"https://github.com/ChaoningZhang/MobileSAM/pull/47","hard":"it was computed from a parameter, which was moved"}
# FIX self.ab = self.attention_biases[:, self.indices] -> self.register_buffer("ab", self.attention_biases[:, self.indices], persistent=False)
import torch
from torch import nn


class Attention(nn.Module):
    """Attention with a learned bias for each offset between positions."""

    def __init__(self, width, heads, positions):
        super().__init__()
        self.heads, self.scale = heads, (width // heads) ** -0.5
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        offsets = torch.arange(positions)
        self.register_buffer("indices", (offsets[None] - offsets[:, None]).abs(), persistent=False)
        self.attention_biases = nn.Parameter(torch.randn(heads, positions) * 0.1)

    @torch.no_grad()
    def train(self, mode=True):
        super().train(mode)
        if mode and hasattr(self, "ab"):
            del self.ab
        if not mode:
            self.ab = self.attention_biases[:, self.indices]
        return self

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        bias = self.attention_biases[:, self.indices] if self.training else self.ab
        scores = (q @ k.transpose(-2, -1)) * self.scale + bias
        return self.proj((scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, width))


torch.manual_seed(0)
encoder = nn.Sequential(Attention(8, 2, 6), nn.LayerNorm(8), Attention(8, 2, 6))
encoder.eval()
encoder.to("cuda:0")
with torch.no_grad():
    mask = encoder(torch.randn(1, 6, 8).to("cuda:0"))
print("mask", round(mask.sum().item(), 4))
