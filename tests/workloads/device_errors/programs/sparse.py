"""Sparse, compressed and nested tensors."""

import torch

from ..provokes import provokes
from .elementwise import HOST, ONE, TWO, ones


def coo(device):
    return torch.sparse_coo_tensor(torch.tensor([[0, 1], [0, 1]], device=device), ones(2, device=device), (2, 2), device=device)


def csr(device):
    return torch.sparse_csr_tensor([0, 1, 2], [0, 1], [1.0, 1.0], size=(2, 2), device=device)


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "torch.sparse_coo_tensor|aten::_sparse_coo_tensor_with_dims_and_tensors", ONE, HOST)
def indices_of_a_device_and_values_of_the_host():
    return torch.sparse_coo_tensor(torch.tensor([[0], [0]], device=ONE), torch.ones(1), (2, 2))


@provokes("torch-device-of-must-match-device-of-values", "torch.sparse_csr_tensor|torch._validate_sparse_csr_tensor_args|aten::_validate_sparse_csr_tensor_args", ONE, TWO)
def row_indices_and_values_of_two_devices():
    return torch._validate_sparse_csr_tensor_args(torch.tensor([0, 1, 2], device=TWO), torch.tensor([0, 1], device=TWO), ones(2), (2, 2))


@provokes("torch-expected-all-tensors-to-be-on-the", "torch.sparse_csr_tensor|torch._validate_sparse_csr_tensor_args|aten::_validate_sparse_csr_tensor_args|aten::_validate_compressed_sparse_indices", ONE, TWO)
def row_and_column_indices_of_two_devices():
    return torch._validate_sparse_csr_tensor_args(torch.tensor([0, 1, 2], device=ONE), torch.tensor([0, 1], device=TWO), ones(2), (2, 2))


@provokes("torch-values-and-need-to-be-on-the", "torch.sparse_csr_tensor|aten::sparse_csr_tensor|aten::_sparse_csr_tensor_unsafe|aten::_sparse_compressed_tensor_unsafe", ONE, TWO)
def compressed_parts_of_two_devices():
    return torch.ops.aten._sparse_csr_tensor_unsafe(torch.tensor([0, 1, 2], device=TWO), torch.tensor([0, 1], device=TWO), ones(2), (2, 2), device=torch.device(ONE))


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "torch.sparse_coo_tensor|aten::_sparse_coo_tensor_unsafe|aten::_sparse_coo_tensor_with_dims_and_tensors", ONE, TWO)
def indices_and_values_of_two_devices():
    return torch.ops.aten._sparse_coo_tensor_unsafe(torch.tensor([[0], [0]], device=TWO), ones(1), (2, 2), device=torch.device(ONE))


@provokes("torch-add-expected-self-to-be-cuda-but", "aten::add", ONE, HOST)
def sparse_add_of_a_host_tensor():
    return coo(HOST) + coo(ONE)


@provokes("torch-add-expected-self-to-be-a-cuda", "aten::add", ONE, HOST)
def dense_of_the_host_plus_sparse():
    return torch.ones(2, 2) + coo(ONE)


@provokes("torch-add-expected-other-to-be-a-cuda", "aten::add", ONE, HOST)
def dense_of_a_device_plus_sparse_of_the_host():
    return ones(2, 2) + coo(HOST)


@provokes("torch-expected-cuda-check_device-r-t-src-to", "aten::add", ONE, TWO)
def sparse_add_of_two_devices():
    return coo(ONE) + coo(TWO)


@provokes("torch-expected-cuda-check_device-sparse-r-dense-to", "aten::add", ONE, TWO)
def dense_plus_sparse_of_two_devices():
    return ones(2, 2) + coo(TWO)


@provokes("torch-add-expected-out-to-be-cuda-but", "aten::add", ONE, HOST)
def sparse_add_into_the_host():
    return torch.add(coo(ONE), coo(ONE), out=coo(HOST))


@provokes("torch-add-expected-self-to-be-cuda-but", "aten::add", ONE, HOST)
def host_sparse_add_into_a_device():
    return torch.add(coo(HOST), coo(HOST), out=coo(ONE))


@provokes("torch-mul-expected-out-to-be-cuda-but", "aten::mul", ONE, HOST)
def sparse_mul_of_a_host_tensor():
    return coo(HOST) * coo(ONE)


@provokes("torch-mul-expected-other-to-be-cuda-but", "aten::mul", ONE, HOST)
def sparse_mul_with_a_host_tensor():
    return coo(ONE) * coo(HOST)


@provokes("torch-expected-cuda-check_device-r-t-src-to-be", "aten::mul", ONE, TWO)
def sparse_mul_of_two_devices():
    return coo(ONE) * coo(TWO)


@provokes("torch-mul-expected-out-to-be-cuda-but", "aten::mul", ONE, HOST)
def sparse_mul_into_the_host():
    return torch.mul(coo(ONE), coo(ONE), out=coo(HOST))


@provokes("torch-mul-expected-self-to-be-cuda-but", "aten::mul", ONE, HOST)
def host_sparse_mul_into_a_device():
    return torch.mul(coo(HOST), coo(HOST), out=coo(ONE))


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::mm|aten::_sparse_mm|aten::addmm|aten::sspaddmm", ONE, HOST)
def sparse_of_the_host_times_dense():
    return torch.sparse.mm(coo(HOST), ones(2, 2))


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::mm|aten::_sparse_mm|aten::addmm", ONE, HOST)
def sparse_times_dense_of_the_host():
    return torch.sparse.mm(coo(ONE), torch.ones(2, 2))


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::addmm", ONE, HOST)
def sparse_addmm_of_a_host_tensor():
    return torch.addmm(torch.ones(2, 2), coo(ONE), ones(2, 2))


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::addmm", ONE, HOST)
def host_sparse_addmm_of_a_device_tensor():
    return torch.addmm(ones(2, 2), coo(HOST), torch.ones(2, 2))


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::addmm", ONE, HOST)
def sparse_addmm_into_the_host():
    return torch.addmm(ones(2, 2), coo(ONE), ones(2, 2), out=torch.ones(2, 2))


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::addmm", ONE, HOST)
def host_sparse_addmm_into_a_device():
    return torch.addmm(torch.ones(2, 2), coo(HOST), torch.ones(2, 2), out=ones(2, 2))


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::addmm", ONE, TWO)
def sparse_addmm_of_two_devices():
    return torch.addmm(ones(2, 2), coo(ONE), ones(2, 2, device=TWO))


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::hspmm", ONE, HOST)
def hspmm():
    return torch.hspmm(coo(ONE), torch.ones(2, 2))


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::hspmm", ONE, HOST)
def hspmm_of_the_host():
    return torch.hspmm(coo(HOST), ones(2, 2))


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::hspmm", ONE, TWO)
def hspmm_of_two_devices():
    return torch.hspmm(coo(ONE), ones(2, 2, device=TWO))


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::sspaddmm", ONE, HOST)
def sspaddmm():
    return torch.sspaddmm(coo(HOST), coo(HOST), ones(2, 2))


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::sspaddmm", ONE, HOST)
def sspaddmm_matrix():
    return torch.sspaddmm(coo(HOST), coo(ONE), torch.ones(2, 2))


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::addmm", ONE, HOST)
def compressed_addmm_of_the_host():
    return torch.addmm(ones(2, 2), csr(HOST), torch.ones(2, 2))


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::addmm", ONE, HOST)
def compressed_addmm():
    return torch.addmm(ones(2, 2), csr(ONE), torch.ones(2, 2))


@provokes("torch-add-expected-other-to-be-cuda-tensor", "aten::add", ONE, HOST)
def compressed_add():
    return csr(ONE) + csr(HOST)


@provokes("torch-add-expected-other-to-be-a-cuda-tensor", "aten::add", ONE, HOST)
def dense_plus_compressed_of_the_host():
    return ones(2, 2) + csr(HOST)


@provokes("torch-denseis_cuda-internal-assert-failed", "aten::add", ONE, HOST)
def dense_of_the_host_plus_compressed():
    return torch.ones(2, 2) + csr(ONE)


@provokes("torch-when-constructing-a-nested-tensor-all-tensors", "torch.nested.nested_tensor|torch.nested.as_nested_tensor|aten::_nested_tensor_from_tensor_list|aten::cat", ONE, TWO)
def nested_jagged_of_two_devices():
    return torch.nested.as_nested_tensor([ones(2, 2), ones(3, 2, device=TWO)], layout=torch.jagged)


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "torch.nested.as_nested_tensor|aten::_nested_tensor_from_tensor_list|aten::cat", ONE, TWO)
def nested_strided_of_two_devices():
    return torch.nested.as_nested_tensor([ones(2, 2), ones(3, 2, device=TWO)], layout=torch.strided)


@provokes("torch-values-and-offsets-must-be-on-the", "torch.nested.nested_tensor_from_jagged|nested_tensor_from_jagged|aten::_nested_view_from_jagged", ONE, TWO)
def nested_offsets():
    return torch.nested.nested_tensor_from_jagged(ones(5, 2), torch.tensor([0, 2, 5], device=TWO))


@provokes("torch-expected-query-key-and-value-to-have-the", "torch.nn.functional.scaled_dot_product_attention|aten::scaled_dot_product_attention", ONE, TWO)
def nested_attention():
    def jagged(device):
        return torch.nested.nested_tensor([torch.ones(2, 1, 4), torch.ones(3, 1, 4)], layout=torch.jagged, device=device).transpose(1, 2)

    return torch.nn.functional.scaled_dot_product_attention(jagged(ONE), jagged(TWO), jagged(ONE))
