"""torch.linalg and its older names."""

import torch

ONE, TWO = "cuda:0", "cuda:1"


def ones(*shape, device=ONE, **options):
    return torch.ones(*shape, device=device, **options)

# === dot
# operation: aten::dot on cuda:0, cuda:1
def dot():
    return torch.dot(ones(3), ones(3, device=TWO))

# === dot_out
# message: torch-dot-expected-the-output-and-input-tensors
# operation: aten::dot on cuda:0, cuda:1
def dot_out():
    return torch.dot(ones(3), ones(3), out=ones((), device=TWO))

# === vdot_out
# message: torch-vdot-expected-the-output-and-input-tensors
# operation: aten::vdot on cuda:0, cuda:1
def vdot_out():
    return torch.vdot(ones(3), ones(3), out=ones((), device=TWO))

# === multi_dot
# message: torch-multi_dot-all-tensors-must-be-on-the
# operation: torch.linalg.multi_dot|aten::linalg_multi_dot on cuda:0, cuda:1
def multi_dot():
    return torch.linalg.multi_dot([ones(2, 2), ones(2, 2), ones(2, 2, device=TWO)])

# === multi_dot_out
# message: torch-multi_dot-expected-out-tensor-to-be-on
# operation: torch.linalg.multi_dot|aten::linalg_multi_dot on cuda:0, cuda:1
def multi_dot_out():
    return torch.linalg.multi_dot([ones(2, 2), ones(2, 2), ones(2, 2)], out=ones(2, 2, device=TWO))

# === tensordot_out
# message: torch-tensordot-expected-the-output-and-input-tensors
# operation: torch.tensordot|aten::tensordot on cuda:0, cuda:1
def tensordot_out():
    return torch.tensordot(ones(2, 2), ones(2, 2), dims=1, out=ones(2, 2, device=TWO))

# === cholesky_solve
# message: torch-expected-b-and-a-to-be-on
# operation: aten::linalg_solve_triangular|aten::cholesky_solve|aten::triangular_solve on cuda:0, cpu
def cholesky_solve():
    return torch.cholesky_solve(ones(2, 1), torch.eye(2))

# === cholesky_solve_two_devices
# message: torch-expected-b-and-a-to-be-on
# operation: aten::cholesky_solve on cuda:0, cuda:1
def cholesky_solve_two_devices():
    return torch.cholesky_solve(ones(2, 1), torch.eye(2, device=TWO))

# === eig_out
# operation: aten::linalg_eig on cuda:0, cpu
def eig_out():
    return torch.linalg.eig(torch.eye(2), out=(torch.zeros(2, dtype=torch.complex64, device=ONE), torch.zeros(2, 2, dtype=torch.complex64)))

# === eigvals_out
# operation: aten::linalg_eigvals on cuda:0, cpu
def eigvals_out():
    return torch.linalg.eigvals(torch.eye(2), out=torch.zeros(2, dtype=torch.complex64, device=ONE))

# === lstsq
# operation: aten::linalg_lstsq on cuda:0, cuda:1
def lstsq():
    return torch.linalg.lstsq(torch.eye(2, device=ONE), ones(2, 1, device=TWO))

# === lstsq_with_the_host
# operation: aten::linalg_lstsq on cuda:0, cpu
def lstsq_with_the_host():
    return torch.linalg.lstsq(torch.eye(2), ones(2, 1))

# === solve
# operation: aten::linalg_solve|aten::linalg_solve_ex|aten::_linalg_solve_ex on cuda:0, cuda:1
def solve():
    return torch.linalg.solve(torch.eye(2, device=ONE), ones(2, 1, device=TWO))

# === cholesky_inverse_out
# operation: aten::cholesky_inverse on cuda:0, cpu
def cholesky_inverse_out():
    return torch.cholesky_inverse(torch.eye(2), out=ones(2, 2))

# === householder_product
# operation: aten::linalg_householder_product on cuda:0, cpu
def householder_product():
    return torch.linalg.householder_product(torch.eye(2), ones(2))

# === householder_product_out
# operation: aten::linalg_householder_product on cuda:0, cpu
def householder_product_out():
    return torch.linalg.householder_product(torch.eye(2), torch.ones(2), out=ones(2, 2))

# === ormqr
# operation: aten::ormqr on cuda:0, cpu
def ormqr():
    return torch.ormqr(torch.eye(2), torch.ones(2), ones(2, 2))

# === addmm
# operation: aten::addmm on cuda:0, cuda:1
def addmm():
    return torch.addmm(ones(2, 2), ones(2, 2), ones(2, 2, device=TWO))

# === lu_without_pivots_on_the_host
# message: torch-linalglu_factor-lu-without-pivoting-is-not-implemented
# operation: aten::linalg_lu_factor|aten::linalg_lu_factor_ex on cpu
def lu_without_pivots_on_the_host():
    return torch.linalg.lu_factor(torch.eye(2), pivot=False)
