# EXPECT {"kind":"wrong-current-device","operation":"minmax_along_last_dim","devices":["cuda:0","cuda:1"],"operands":["data|groups"],"category":"unguarded kernel","line":["minmax_along_last_dim[grid]("],"error":"","thread":"https://github.com/jy-yuan/KIVI/issues/24","hard":"the layers of the first device run the same line, rightly"}
# FIX minmax_along_last_dim[grid](groups, mn, mx, groups.numel(), GROUP=group_size, BLOCK=4) -> with torch.cuda.device(groups.device): minmax_along_last_dim[grid](groups, mn, mx, groups.numel(), GROUP=group_size, BLOCK=4)
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def minmax_along_last_dim(data, mn, mx, count, GROUP: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = row[:, None] * GROUP + tl.arange(0, GROUP)[None]
    mask = at < count
    tl.store(mn + row, tl.min(tl.load(data + at, mask=mask, other=float("inf")), axis=1), mask=row * GROUP < count)
    tl.store(mx + row, tl.max(tl.load(data + at, mask=mask, other=float("-inf")), axis=1), mask=row * GROUP < count)


def quantize_along_last_dim(data, group_size, bits):
    groups = data.reshape(-1, group_size)
    mn = torch.empty(len(groups), device=data.device)
    mx = torch.empty(len(groups), device=data.device)
    grid = (triton.cdiv(len(groups), 4),)
    minmax_along_last_dim[grid](groups, mn, mx, groups.numel(), GROUP=group_size, BLOCK=4)
    return data.shape, bits * data.numel() // 8 + 8 * len(groups)


class Attention(nn.Module):
    def __init__(self, width, group_size=8, bits=2):
        super().__init__()
        self.k_proj, self.v_proj = nn.Linear(width, width), nn.Linear(width, width)
        self.group_size, self.bits = group_size, bits

    def forward(self, hidden):
        keys, values = self.k_proj(hidden), self.v_proj(hidden)
        # Keys by channel, values by token.
        stored = [quantize_along_last_dim(part, self.group_size, self.bits) for part in (keys.transpose(1, 2).contiguous(), values)]
        return hidden + values, sum(size for _, size in stored)


torch.manual_seed(0)
layers = [Attention(16).to(f"cuda:{i // 2}") for i in range(4)]
hidden, cached = torch.rand(1, 8, 16).to("cuda:0"), 0
with torch.no_grad():
    for layer in layers:
        hidden, size = layer(hidden.to(layer.k_proj.weight.device))
        cached += size
print("bytes of the cache", cached)
