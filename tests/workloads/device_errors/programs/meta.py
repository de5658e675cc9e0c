"""Tensors without memory."""

import torch

ONE = "cuda:0"


def ones(*shape, device=ONE, **options):
    return torch.ones(*shape, device=device, **options)

# === tensor_to_a_device
# message: torch-cannot-copy-out-of-meta-tensor-no
# operation: torch.Tensor.to|aten::_to_copy|aten::copy_|torch.Tensor.cuda on meta, cuda:0
def tensor_to_a_device():
    return torch.ones(2, device="meta").to(ONE)

# === module_to_a_device
# message: torch-please-use-torchnnmoduleto_empty-instead-of-torchnnmoduleto-when
# operation: torch.nn.Module.to|aten::copy_ on meta, cuda:0
def module_to_a_device():
    return torch.nn.Linear(2, 2, device="meta").to(ONE)

# === item
# message: torch-tensoritem-cannot-be-called-on-meta-tensors
# operation: torch.Tensor.item|aten::_local_scalar_dense|aten::item on meta
def item():
    return torch.ones((), device="meta").item()

# === tolist
# message: torch-cannot-copy-out-of-meta-tensor-no
# operation: torch.Tensor.tolist|tolist|aten::item|torch.Tensor.item|aten::copy_ on meta
def tolist():
    return torch.ones(2, device="meta").tolist()

# === add_of_meta
# message: torch-tensor-on-device-is-not-on-the
# operation: aten::add on meta, cuda:0
def add_of_meta():
    return ones(2) + torch.ones(2, device="meta")

# === repeat_interleave_of_meta
# message: torch-cannot-repeat_interleave-a-meta-tensor-without-output_size
# operation: torch.repeat_interleave|aten::repeat_interleave on meta
def repeat_interleave_of_meta():
    return torch.repeat_interleave(torch.ones(2, dtype=torch.long, device="meta"))

# === linear_of_meta
# message: torch-tensor-on-device-is-not-on-the
# operation: aten::addmm|aten::linear|aten::mm on meta, cuda:0
def linear_of_meta():
    return torch.nn.Linear(2, 2, device="meta")(ones(1, 2))

# === element_of_a_storage
# message: torch-not-available-for-meta-device-type
# operation: torch.Tensor.untyped_storage|storage|__getitem__ on meta
def element_of_a_storage():
    return torch.ones(2, device="meta").storage()[0]

# === sparse_layout
# message: torch-cannot-pin-only-dense-cpu-tensors-can
# operation: aten::_pin_memory on meta, cpu
def sparse_layout():
    return torch.empty((2, 2), layout=torch.sparse_csr, device="meta", pin_memory=True)

# === gradient
# message: torch-attempting-to-assign-a-gradient-with-device
# operation: torch.Tensor.grad on meta, cuda:0
def gradient():
    ones(2, requires_grad=True).grad = torch.ones(2, device="meta")

# === grid_sample_of_meta
# message: torch-tensor-on-device-is-not-on-the
# operation: torch.nn.functional.grid_sample|aten::grid_sampler|aten::grid_sampler_2d on meta, cuda:0
def grid_sample_of_meta():
    return torch.nn.functional.grid_sample(torch.ones(1, 1, 2, 2, device="meta"), ones(1, 2, 2, 2), align_corners=False)

# === where_of_meta
# message: torch-tensor-on-device-is-not-on-the
# operation: aten::where on meta, cpu
def where_of_meta():
    return torch.where(torch.ones(2) > 0, torch.ones(2), torch.ones(2, device="meta"))

# === skip_init
# message: torch-module-must-support-a-device-arg-to
# operation: torch.nn.utils.skip_init|skip_init
def skip_init():
    class Layer(torch.nn.Module):
        def __init__(self, size):
            super().__init__()

    return torch.nn.utils.skip_init(Layer, 2)
