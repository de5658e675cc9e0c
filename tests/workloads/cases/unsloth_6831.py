# thread: https://github.com/unslothai/unsloth/issues/6831
# about: a Triton kernel is launched for a layer on the second GPU while the first one is current. Nothing refuses it.
# category: unguarded-kernel
# operands: x cuda:1
# fails: dequantize[(1,)](x, scale, y, x.numel())
# silent: yes



import torch
import triton
import triton.language as tl


@triton.jit
def dequantize(x, scale, y, count, SIZE: tl.constexpr = 64):
    at = tl.arange(0, SIZE)
    tl.store(y + at, tl.load(x + at, mask=at < count) * tl.load(scale), mask=at < count)


def forward(x, scale):
    y = torch.empty_like(x)
    dequantize[(1,)](x, scale, y, x.numel())
    return y


forward(torch.randn(64, device="cuda:1"), torch.rand(1, device="cuda:1"))
