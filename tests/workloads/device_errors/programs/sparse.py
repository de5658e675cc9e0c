"""Sparse, compressed and nested tensors."""

import torch

ONE, TWO, HOST = "cuda:0", "cuda:1", "cpu"


def ones(*shape, device=ONE, **options):
    return torch.ones(*shape, device=device, **options)


def coo(device):
    return torch.sparse_coo_tensor(torch.tensor([[0, 1], [0, 1]], device=device), ones(2, device=device), (2, 2), device=device)


def csr(device):
    return torch.sparse_csr_tensor([0, 1, 2], [0, 1], [1.0, 1.0], size=(2, 2), device=device)

# === indices_of_a_device_and_values_of_the_host
# operation: torch.sparse_coo_tensor|aten::_sparse_coo_tensor_with_dims_and_tensors on cuda:0, cpu
def indices_of_a_device_and_values_of_the_host():
    return torch.sparse_coo_tensor(torch.tensor([[0], [0]], device=ONE), torch.ones(1), (2, 2))

# === row_indices_and_values_of_two_devices
# message: torch-device-of-must-match-device-of-values
# operation: torch.sparse_csr_tensor|torch._validate_sparse_csr_tensor_args|aten::_validate_sparse_csr_tensor_args on cuda:0, cuda:1
def row_indices_and_values_of_two_devices():
    return torch._validate_sparse_csr_tensor_args(torch.tensor([0, 1, 2], device=TWO), torch.tensor([0, 1], device=TWO), ones(2), (2, 2))

# === row_and_column_indices_of_two_devices
# message: torch-expected-all-tensors-to-be-on-the
# operation: torch.sparse_csr_tensor|torch._validate_sparse_csr_tensor_args|aten::_validate_sparse_csr_tensor_args|aten::_validate_compressed_sparse_indices on cuda:0, cuda:1
def row_and_column_indices_of_two_devices():
    return torch._validate_sparse_csr_tensor_args(torch.tensor([0, 1, 2], device=ONE), torch.tensor([0, 1], device=TWO), ones(2), (2, 2))

# === compressed_parts_of_two_devices
# message: torch-values-and-need-to-be-on-the
# operation: torch.sparse_csr_tensor|aten::sparse_csr_tensor|aten::_sparse_csr_tensor_unsafe|aten::_sparse_compressed_tensor_unsafe on cuda:0, cuda:1
def compressed_parts_of_two_devices():
    return torch.ops.aten._sparse_csr_tensor_unsafe(torch.tensor([0, 1, 2], device=TWO), torch.tensor([0, 1], device=TWO), ones(2), (2, 2), device=torch.device(ONE))

# === indices_and_values_of_two_devices
# operation: torch.sparse_coo_tensor|aten::_sparse_coo_tensor_unsafe|aten::_sparse_coo_tensor_with_dims_and_tensors on cuda:0, cuda:1
def indices_and_values_of_two_devices():
    return torch.ops.aten._sparse_coo_tensor_unsafe(torch.tensor([[0], [0]], device=TWO), ones(1), (2, 2), device=torch.device(ONE))

# === sparse_add_of_a_host_tensor
# message: torch-add-expected-self-to-be-cuda-but
# operation: aten::add on cuda:0, cpu
def sparse_add_of_a_host_tensor():
    return coo(HOST) + coo(ONE)

# === dense_of_the_host_plus_sparse
# message: torch-add-expected-self-to-be-a-cuda
# operation: aten::add on cuda:0, cpu
def dense_of_the_host_plus_sparse():
    return torch.ones(2, 2) + coo(ONE)

# === dense_of_a_device_plus_sparse_of_the_host
# message: torch-add-expected-other-to-be-a-cuda
# operation: aten::add on cuda:0, cpu
def dense_of_a_device_plus_sparse_of_the_host():
    return ones(2, 2) + coo(HOST)

# === sparse_add_of_two_devices
# message: torch-expected-cuda-check_device-r-t-src-to
# operation: aten::add on cuda:0, cuda:1
def sparse_add_of_two_devices():
    return coo(ONE) + coo(TWO)

# === dense_plus_sparse_of_two_devices
# message: torch-expected-cuda-check_device-sparse-r-dense-to
# operation: aten::add on cuda:0, cuda:1
def dense_plus_sparse_of_two_devices():
    return ones(2, 2) + coo(TWO)

# === sparse_add_into_the_host
# message: torch-add-expected-out-to-be-cuda-but
# operation: aten::add on cuda:0, cpu
def sparse_add_into_the_host():
    return torch.add(coo(ONE), coo(ONE), out=coo(HOST))

# === host_sparse_add_into_a_device
# message: torch-add-expected-self-to-be-cuda-but
# operation: aten::add on cuda:0, cpu
def host_sparse_add_into_a_device():
    return torch.add(coo(HOST), coo(HOST), out=coo(ONE))

# === sparse_mul_of_a_host_tensor
# message: torch-mul-expected-out-to-be-cuda-but
# operation: aten::mul on cuda:0, cpu
def sparse_mul_of_a_host_tensor():
    return coo(HOST) * coo(ONE)

# === sparse_mul_with_a_host_tensor
# message: torch-mul-expected-other-to-be-cuda-but
# operation: aten::mul on cuda:0, cpu
def sparse_mul_with_a_host_tensor():
    return coo(ONE) * coo(HOST)

# === sparse_mul_of_two_devices
# message: torch-expected-cuda-check_device-r-t-src-to-be
# operation: aten::mul on cuda:0, cuda:1
def sparse_mul_of_two_devices():
    return coo(ONE) * coo(TWO)

# === sparse_mul_into_the_host
# message: torch-mul-expected-out-to-be-cuda-but
# operation: aten::mul on cuda:0, cpu
def sparse_mul_into_the_host():
    return torch.mul(coo(ONE), coo(ONE), out=coo(HOST))

# === host_sparse_mul_into_a_device
# message: torch-mul-expected-self-to-be-cuda-but
# operation: aten::mul on cuda:0, cpu
def host_sparse_mul_into_a_device():
    return torch.mul(coo(HOST), coo(HOST), out=coo(ONE))

# === sparse_of_the_host_times_dense
# operation: aten::mm|aten::_sparse_mm|aten::addmm|aten::sspaddmm on cuda:0, cpu
def sparse_of_the_host_times_dense():
    return torch.sparse.mm(coo(HOST), ones(2, 2))

# === sparse_times_dense_of_the_host
# operation: aten::mm|aten::_sparse_mm|aten::addmm on cuda:0, cpu
def sparse_times_dense_of_the_host():
    return torch.sparse.mm(coo(ONE), torch.ones(2, 2))

# === sparse_addmm_of_a_host_tensor
# operation: aten::addmm on cuda:0, cpu
def sparse_addmm_of_a_host_tensor():
    return torch.addmm(torch.ones(2, 2), coo(ONE), ones(2, 2))

# === host_sparse_addmm_of_a_device_tensor
# operation: aten::addmm on cuda:0, cpu
def host_sparse_addmm_of_a_device_tensor():
    return torch.addmm(ones(2, 2), coo(HOST), torch.ones(2, 2))

# === sparse_addmm_into_the_host
# operation: aten::addmm on cuda:0, cpu
def sparse_addmm_into_the_host():
    return torch.addmm(ones(2, 2), coo(ONE), ones(2, 2), out=torch.ones(2, 2))

# === host_sparse_addmm_into_a_device
# operation: aten::addmm on cuda:0, cpu
def host_sparse_addmm_into_a_device():
    return torch.addmm(torch.ones(2, 2), coo(HOST), torch.ones(2, 2), out=ones(2, 2))

# === sparse_addmm_of_two_devices
# operation: aten::addmm on cuda:0, cuda:1
def sparse_addmm_of_two_devices():
    return torch.addmm(ones(2, 2), coo(ONE), ones(2, 2, device=TWO))

# === hspmm
# operation: aten::hspmm on cuda:0, cpu
def hspmm():
    return torch.hspmm(coo(ONE), torch.ones(2, 2))

# === hspmm_of_the_host
# operation: aten::hspmm on cuda:0, cpu
def hspmm_of_the_host():
    return torch.hspmm(coo(HOST), ones(2, 2))

# === hspmm_of_two_devices
# operation: aten::hspmm on cuda:0, cuda:1
def hspmm_of_two_devices():
    return torch.hspmm(coo(ONE), ones(2, 2, device=TWO))

# === sspaddmm
# operation: aten::sspaddmm on cuda:0, cpu
def sspaddmm():
    return torch.sspaddmm(coo(HOST), coo(HOST), ones(2, 2))

# === sspaddmm_matrix
# operation: aten::sspaddmm on cuda:0, cpu
def sspaddmm_matrix():
    return torch.sspaddmm(coo(HOST), coo(ONE), torch.ones(2, 2))

# === compressed_addmm_of_the_host
# operation: aten::addmm on cuda:0, cpu
def compressed_addmm_of_the_host():
    return torch.addmm(ones(2, 2), csr(HOST), torch.ones(2, 2))

# === compressed_addmm
# operation: aten::addmm on cuda:0, cpu
def compressed_addmm():
    return torch.addmm(ones(2, 2), csr(ONE), torch.ones(2, 2))

# === compressed_add
# message: torch-add-expected-other-to-be-cuda-tensor
# operation: aten::add on cuda:0, cpu
def compressed_add():
    return csr(ONE) + csr(HOST)

# === dense_plus_compressed_of_the_host
# message: torch-add-expected-other-to-be-a-cuda-tensor
# operation: aten::add on cuda:0, cpu
def dense_plus_compressed_of_the_host():
    return ones(2, 2) + csr(HOST)

# === dense_of_the_host_plus_compressed
# message: torch-denseis_cuda-internal-assert-failed
# operation: aten::add on cuda:0, cpu
def dense_of_the_host_plus_compressed():
    return torch.ones(2, 2) + csr(ONE)

# === nested_jagged_of_two_devices
# message: torch-when-constructing-a-nested-tensor-all-tensors
# operation: torch.nested.nested_tensor|torch.nested.as_nested_tensor|aten::_nested_tensor_from_tensor_list|aten::cat on cuda:0, cuda:1
def nested_jagged_of_two_devices():
    return torch.nested.as_nested_tensor([ones(2, 2), ones(3, 2, device=TWO)], layout=torch.jagged)

# === nested_strided_of_two_devices
# operation: torch.nested.as_nested_tensor|aten::_nested_tensor_from_tensor_list|aten::cat on cuda:0, cuda:1
def nested_strided_of_two_devices():
    return torch.nested.as_nested_tensor([ones(2, 2), ones(3, 2, device=TWO)], layout=torch.strided)

# === nested_offsets
# message: torch-values-and-offsets-must-be-on-the
# operation: torch.nested.nested_tensor_from_jagged|nested_tensor_from_jagged|aten::_nested_view_from_jagged on cuda:0, cuda:1
def nested_offsets():
    return torch.nested.nested_tensor_from_jagged(ones(5, 2), torch.tensor([0, 2, 5], device=TWO))

# === nested_attention
# message: torch-expected-query-key-and-value-to-have-the
# operation: torch.nn.functional.scaled_dot_product_attention|aten::scaled_dot_product_attention on cuda:0, cuda:1
def nested_attention():
    def jagged(device):
        return torch.nested.nested_tensor([torch.ones(2, 1, 4), torch.ones(3, 1, 4)], layout=torch.jagged, device=device).transpose(1, 2)

    return torch.nn.functional.scaled_dot_product_attention(jagged(ONE), jagged(TWO), jagged(ONE))
