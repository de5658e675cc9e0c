"""Nested tensors of strided layout on simulated devices and on the CPU: one buffer and the sizes of its parts, wrapped anew."""

import torch

# Operators on them that launch kernels of their own. The others are made of operators on their buffers.
OWN_KERNELS = {
    "aten::to_padded_tensor", "aten::_nested_from_padded_and_nested_example", "aten::_transform_bias_rescale_qkv", "aten::bmm",
    "aten::native_layer_norm", "aten::native_layer_norm_backward",
}  # fmt: skip


@torch.inference_mode(False)
def _buffer(tensor):
    """A CPU tensor over its buffer, with a storage of that size: the CPU's kernels take a nested tensor's buffer to be its whole storage."""
    buffer = tensor.values()
    if not buffer.numel():
        return torch.empty(0, dtype=buffer.dtype, device="cpu")
    storage = torch._C._construct_storage_from_data_pointer(buffer.data_ptr(), torch.device("cpu"), buffer.numel() * buffer.element_size())
    return torch.empty(0, dtype=buffer.dtype, device="cpu").set_(storage, 0, buffer.shape, buffer.stride())


def alias(tensor):
    """A CPU tensor over the buffer of a nested CUDA tensor."""
    form = tensor._nested_tensor_size(), tensor._nested_tensor_strides(), tensor._nested_tensor_storage_offsets()
    return torch._nested_view_from_buffer(_buffer(tensor), *form)


def overwrite(tensor, value):
    """Makes a nested CUDA tensor hold what a CPU tensor of the same form does."""
    _buffer(tensor).copy_(value.contiguous().values())
