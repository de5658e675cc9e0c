"""Sparse tensors on simulated devices and on the CPU: the same indices and values, wrapped anew."""

import torch

from . import memory

_COMPRESSED_ROWS = (torch.sparse_csr, torch.sparse_bsr)
_COMPRESSED = (*_COMPRESSED_ROWS, torch.sparse_csc, torch.sparse_bsc)


def _rebuilt(tensor, part, device):
    """`tensor` with each of its parts replaced by part(it)."""
    if tensor.layout == torch.sparse_coo:
        return torch.ops.aten._sparse_coo_tensor_with_dims_and_tensors.default._op(
            tensor.sparse_dim(), tensor.dense_dim(), tensor.shape, part(tensor._indices()), part(tensor._values()), dtype=tensor.dtype,
            layout=torch.sparse_coo, device=device, is_coalesced=tensor.is_coalesced(),
        )  # fmt: skip
    if tensor.layout in _COMPRESSED:
        rows = tensor.layout in _COMPRESSED_ROWS
        outer, inner = (tensor.crow_indices(), tensor.col_indices()) if rows else (tensor.ccol_indices(), tensor.row_indices())
        return torch.ops.aten._sparse_compressed_tensor_unsafe.default._op(
            part(outer), part(inner), part(tensor.values()), tensor.shape, dtype=tensor.dtype, layout=tensor.layout, device=device
        )
    return None


def alias(tensor):
    """A CPU tensor over the parts of a sparse CUDA tensor; None when the layout is none of these."""
    return _rebuilt(tensor, memory.alias, torch.device("cpu"))


def copy(tensor):
    """A CPU tensor of its own with what a sparse CUDA tensor holds."""
    return _rebuilt(tensor, lambda part: memory.alias(part).clone(), torch.device("cpu"))


def on_device(tensor, device):
    """A CPU tensor's copy on a simulated device."""

    def copy(part):
        made = torch.empty_strided(part.shape, part.stride(), dtype=part.dtype, device=device)
        memory.alias(made).copy_(part)
        return made

    return copy(tensor) if tensor.layout == torch.strided else _rebuilt(tensor, copy, device)


def overwrite(tensor, value):
    """Makes a sparse CUDA tensor hold what a CPU tensor does."""
    if tensor.layout != torch.sparse_coo:
        memory.alias(tensor.values()).copy_(value.values())  # as many as before: in-place operators on them keep the form
        return
    # Makes it parts of the right sizes; its own copies are held, as every copy inside an operator.
    torch.ops.aten.copy_sparse_to_sparse_.default._op(tensor, on_device(value, tensor.device))
    memory.alias(tensor._indices()).copy_(value._indices())
    memory.alias(tensor._values()).copy_(value._values())
    tensor._coalesced_(value.is_coalesced())
