"""Errors of the CUDA runtime and of Triton that come from a wrong device."""

import torch

ONE, HOST = "cuda:0", "cpu"

# === triton_pointer_of_the_host
# message: triton-pointer-argument-cannot-be-accessed
# operation: copy|triton.jit|run on cuda:0, cpu
def triton_pointer_of_the_host():
    import triton
    import triton.language as tl

    @triton.jit
    def copy(source, target):
        tl.store(target, tl.load(source))

    copy[(1,)](torch.ones(1, device=HOST), torch.ones(1, device=ONE))
