"""Errors of the CUDA runtime and of Triton that come from a wrong device."""

import torch

from ..provokes import provokes
from .elementwise import HOST, ONE


@provokes("triton-pointer-argument-cannot-be-accessed", "copy|triton.jit|run", ONE, HOST)
def triton_pointer_of_the_host():
    import triton
    import triton.language as tl

    @triton.jit
    def copy(source, target):
        tl.store(target, tl.load(source))

    copy[(1,)](torch.ones(1, device=HOST), torch.ones(1, device=ONE))
