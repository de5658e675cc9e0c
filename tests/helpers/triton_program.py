"""A kernel of Triton's and its tensors on two devices: what several tests launch."""

TRITON = """
import torch, triton, triton.language as tl
@triton.jit
def add(x, y, out, n: tl.constexpr):
    i = tl.arange(0, n)
    tl.store(out + i, tl.load(x + i) + tl.load(y + i))
here, there, there_too = (torch.ones(64, device=f"cuda:{n}") for n in (0, 1, 1))
"""
