"""Uses of one device, each of which runs to its end without a finding: uses.py NAME. Prints what was computed."""

import sys

import torch

try:
    import triton
    import triton.language as tl

    @triton.jit
    def twice_and_one(x, out, n: tl.constexpr):
        i = tl.arange(0, n)
        tl.store(out + i, tl.load(x + i) * 2 + 1)
except ImportError:
    triton = None


def cuda_graph():
    """Captured, and replayed with other values in the memory that it reads."""
    here = torch.arange(8, device="cuda:0", dtype=torch.float32)
    here * 2 + 1  # what is made at the first call is made outside of the capture
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        result = here * 2 + 1
    here += 1
    captured.replay()
    torch.cuda.synchronize()
    return result.tolist()


def libraries():
    """cuBLAS and cuFFT by PyTorch's handles."""
    ones = torch.ones(16, 16, device="cuda:0")
    return [float((ones @ ones).sum()), float(torch.baddbmm(ones[None], ones[None], ones[None]).sum()), round(float(torch.fft.fft(ones[0]).real.sum()))]


def a_kernel_of_triton():
    if triton is None:
        return "Triton is not installed"
    here = torch.arange(8, device="cuda:0", dtype=torch.float32)
    out = torch.zeros_like(here)
    twice_and_one[(1,)](here, out, 8)
    return out.tolist()


def cupy():
    try:
        import cupy
    except ImportError:
        return "CuPy is not installed"
    here = cupy.arange(8, dtype=cupy.float32)
    return [(here * 2 + 1).tolist(), float(cupy.sum(here))]


if __name__ == "__main__":
    print(globals()[sys.argv[1]]())
