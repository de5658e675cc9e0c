"""Operators that refuse on the CPU what CUDA's compute, as the same mathematics: by name in SUBSTITUTES, asked when the CPU has refused.

A function gets the operator's arguments with CUDA tensors as their CPU aliases; out= arguments are filled by it.
"""

import torch

SUBSTITUTES = {}


def substitute(*names):
    def enter(function):
        for name in names:
            SUBSTITUTES["aten::" + name] = function
        return function

    return enter


def into(outs, values):
    """What an operator returns that writes into `outs`, which are None for one without out=."""
    if any(out is None for out in outs):
        return values
    for out, value in zip(outs, values):
        out.copy_(value)
    return tuple(outs)


@substitute("cholesky_inverse", "cholesky_inverse.out")
def cholesky_inverse(input, upper=False, *, out=None):
    """Of a singular matrix: infinities, where LAPACK stops with an error."""
    eye = torch.eye(input.size(-1), dtype=input.dtype, device="cpu").expand_as(input)
    return into((out,), (torch.cholesky_solve(eye, input, upper),))[0]


def eliminated(matrix):
    """The LU factors of [..., m, n] without pivoting, in one matrix; and for each the first pivot that is zero, from 1; 0: none."""
    lu = matrix.clone()
    smaller = min(lu.shape[-2:])
    info = torch.zeros(lu.shape[:-2], dtype=torch.int32, device="cpu")
    for k in range(smaller):
        pivot = lu[..., k, k]
        info = torch.where((pivot == 0) & (info == 0), k + 1, info)
        if k + 1 < lu.size(-2):
            lu[..., k + 1 :, k] /= pivot.unsqueeze(-1)
            lu[..., k + 1 :, k + 1 :] -= lu[..., k + 1 :, k].unsqueeze(-1) * lu[..., k, k + 1 :].unsqueeze(-2)
    return lu, info.to(torch.int32)


@substitute("linalg_lu_factor_ex", "linalg_lu_factor_ex.out")
def lu_factor(A, *, pivot=True, check_errors=False, LU=None, pivots=None, info=None):
    lu, zero = eliminated(A)
    order = torch.arange(1, min(A.shape[-2:]) + 1, dtype=torch.int32, device="cpu").expand(*A.shape[:-2], -1)
    if check_errors and bool((zero != 0).any()):
        torch._linalg_check_errors(zero, "torch.linalg.lu_factor_ex", is_matrix=A.dim() == 2)
    return into((LU, pivots, info), (lu, order.contiguous(), zero))


@substitute("linalg_lu", "linalg_lu.out")
def lu(A, *, pivot=True, P=None, L=None, U=None):
    factors, _ = eliminated(A)
    smaller = min(A.shape[-2:])
    lower = factors[..., :, :smaller].tril(-1) + torch.eye(A.size(-2), smaller, dtype=A.dtype, device="cpu")
    return into((P, L, U), (torch.empty(0, dtype=A.dtype, device="cpu"), lower, factors[..., :smaller, :].triu()))


@substitute("nansum", "nansum.out")
def nansum(input, dim=None, keepdim=False, *, dtype=None, out=None):
    """Of complex numbers."""
    return into((out,), (torch.where(input.isnan(), 0, input).sum(dim, keepdim, dtype=dtype),))[0]
