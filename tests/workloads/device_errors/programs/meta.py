"""Tensors without memory."""

import torch

from ..provokes import provokes
from .elementwise import HOST, ONE, ones


@provokes("torch-cannot-copy-out-of-meta-tensor-no", "torch.Tensor.to|aten::_to_copy|aten::copy_|torch.Tensor.cuda", "meta", ONE)
def tensor_to_a_device():
    return torch.ones(2, device="meta").to(ONE)


@provokes("torch-please-use-torchnnmoduleto_empty-instead-of-torchnnmoduleto-when", "torch.nn.Module.to|aten::copy_", "meta", ONE)
def module_to_a_device():
    return torch.nn.Linear(2, 2, device="meta").to(ONE)


@provokes("torch-tensoritem-cannot-be-called-on-meta-tensors", "torch.Tensor.item|aten::_local_scalar_dense|aten::item", "meta")
def item():
    return torch.ones((), device="meta").item()


@provokes("torch-cannot-copy-out-of-meta-tensor-no", "torch.Tensor.tolist|tolist|aten::item|torch.Tensor.item|aten::copy_", "meta")
def tolist():
    return torch.ones(2, device="meta").tolist()


@provokes("torch-tensor-on-device-is-not-on-the", "aten::add", "meta", ONE)
def add_of_meta():
    return ones(2) + torch.ones(2, device="meta")


@provokes("torch-cannot-repeat_interleave-a-meta-tensor-without-output_size", "torch.repeat_interleave|aten::repeat_interleave", "meta")
def repeat_interleave_of_meta():
    return torch.repeat_interleave(torch.ones(2, dtype=torch.long, device="meta"))


@provokes("torch-tensor-on-device-is-not-on-the", "aten::addmm|aten::linear|aten::mm", "meta", ONE)
def linear_of_meta():
    return torch.nn.Linear(2, 2, device="meta")(ones(1, 2))


@provokes("torch-not-available-for-meta-device-type", "torch.Tensor.untyped_storage|storage|__getitem__", "meta")
def element_of_a_storage():
    return torch.ones(2, device="meta").storage()[0]


@provokes("torch-cannot-pin-only-dense-cpu-tensors-can", "aten::_pin_memory", "meta", HOST)
def sparse_layout():
    return torch.empty((2, 2), layout=torch.sparse_csr, device="meta", pin_memory=True)


@provokes("torch-attempting-to-assign-a-gradient-with-device", "torch.Tensor.grad", "meta", ONE)
def gradient():
    ones(2, requires_grad=True).grad = torch.ones(2, device="meta")


@provokes("torch-tensor-on-device-is-not-on-the", "torch.nn.functional.grid_sample|aten::grid_sampler|aten::grid_sampler_2d", "meta", ONE)
def grid_sample_of_meta():
    return torch.nn.functional.grid_sample(torch.ones(1, 1, 2, 2, device="meta"), ones(1, 2, 2, 2), align_corners=False)


@provokes("torch-tensor-on-device-is-not-on-the", "aten::where", "meta", HOST)
def where_of_meta():
    return torch.where(torch.ones(2) > 0, torch.ones(2), torch.ones(2, device="meta"))


@provokes("torch-module-must-support-a-device-arg-to", "torch.nn.utils.skip_init|skip_init")
def skip_init():
    class Layer(torch.nn.Module):
        def __init__(self, size):
            super().__init__()

    return torch.nn.utils.skip_init(Layer, 2)
