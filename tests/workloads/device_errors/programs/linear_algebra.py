"""torch.linalg and its older names."""

import torch

from ..provokes import provokes
from .elementwise import HOST, ONE, TWO, ones


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::dot", ONE, TWO)
def dot():
    return torch.dot(ones(3), ones(3, device=TWO))


@provokes("torch-dot-expected-the-output-and-input-tensors", "aten::dot", ONE, TWO)
def dot_out():
    return torch.dot(ones(3), ones(3), out=ones((), device=TWO))


@provokes("torch-vdot-expected-the-output-and-input-tensors", "aten::vdot", ONE, TWO)
def vdot_out():
    return torch.vdot(ones(3), ones(3), out=ones((), device=TWO))


@provokes("torch-multi_dot-all-tensors-must-be-on-the", "torch.linalg.multi_dot|aten::linalg_multi_dot", ONE, TWO)
def multi_dot():
    return torch.linalg.multi_dot([ones(2, 2), ones(2, 2), ones(2, 2, device=TWO)])


@provokes("torch-multi_dot-expected-out-tensor-to-be-on", "torch.linalg.multi_dot|aten::linalg_multi_dot", ONE, TWO)
def multi_dot_out():
    return torch.linalg.multi_dot([ones(2, 2), ones(2, 2), ones(2, 2)], out=ones(2, 2, device=TWO))


@provokes("torch-tensordot-expected-the-output-and-input-tensors", "torch.tensordot|aten::tensordot", ONE, TWO)
def tensordot_out():
    return torch.tensordot(ones(2, 2), ones(2, 2), dims=1, out=ones(2, 2, device=TWO))


@provokes("torch-expected-b-and-a-to-be-on", "aten::linalg_solve_triangular|aten::cholesky_solve|aten::triangular_solve", ONE, HOST)
def cholesky_solve():
    return torch.cholesky_solve(ones(2, 1), torch.eye(2))


@provokes("torch-expected-b-and-a-to-be-on", "aten::cholesky_solve", ONE, TWO)
def cholesky_solve_two_devices():
    return torch.cholesky_solve(ones(2, 1), torch.eye(2, device=TWO))


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::linalg_eig", ONE, HOST)
def eig_out():
    return torch.linalg.eig(torch.eye(2), out=(torch.zeros(2, dtype=torch.complex64, device=ONE), torch.zeros(2, 2, dtype=torch.complex64)))


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::linalg_eigvals", ONE, HOST)
def eigvals_out():
    return torch.linalg.eigvals(torch.eye(2), out=torch.zeros(2, dtype=torch.complex64, device=ONE))


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::linalg_lstsq", ONE, TWO)
def lstsq():
    return torch.linalg.lstsq(torch.eye(2, device=ONE), ones(2, 1, device=TWO))


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::linalg_lstsq", ONE, HOST)
def lstsq_with_the_host():
    return torch.linalg.lstsq(torch.eye(2), ones(2, 1))


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::linalg_solve|aten::linalg_solve_ex|aten::_linalg_solve_ex", ONE, TWO)
def solve():
    return torch.linalg.solve(torch.eye(2, device=ONE), ones(2, 1, device=TWO))


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::cholesky_inverse", ONE, HOST)
def cholesky_inverse_out():
    return torch.cholesky_inverse(torch.eye(2), out=ones(2, 2))


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::linalg_householder_product", ONE, HOST)
def householder_product():
    return torch.linalg.householder_product(torch.eye(2), ones(2))


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::linalg_householder_product", ONE, HOST)
def householder_product_out():
    return torch.linalg.householder_product(torch.eye(2), torch.ones(2), out=ones(2, 2))


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::ormqr", ONE, HOST)
def ormqr():
    return torch.ormqr(torch.eye(2), torch.ones(2), ones(2, 2))


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::addmm", ONE, TWO)
def addmm():
    return torch.addmm(ones(2, 2), ones(2, 2), ones(2, 2, device=TWO))


@provokes("torch-linalglu_factor-lu-without-pivoting-is-not-implemented", "aten::linalg_lu_factor|aten::linalg_lu_factor_ex", HOST)
def lu_without_pivots_on_the_host():
    return torch.linalg.lu_factor(torch.eye(2), pivot=False)
