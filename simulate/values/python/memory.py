"""CPU tensors over the memory of simulated devices: device memory is host memory, so the same bytes serve both."""

import torch

# One CPU storage over all of user space: an alias is a strided view of it, whatever the allocator did meanwhile.
START = 1 << 12
END = 1 << 47
LARGEST_CACHE = 20_000

_storage = torch._C._construct_storage_from_data_pointer(START, torch.device("cpu"), END - 2 * START)
_everything = {}  # dtype: a flat tensor over all memory
_aliases = {}  # (address, dtype, shape, strides): tensor

_as_strided = torch.Tensor.as_strided


def _flat(dtype):
    flat = _everything.get(dtype)
    if flat is None:
        flat = torch.empty(0, dtype=dtype, device="cpu")
        flat = _everything[dtype] = flat.set_(_storage, 0, ((END - 2 * START) // flat.element_size(),), (1,))
    return flat


@torch.inference_mode(False)  # it outlives the program's inference mode, and may be written to after that
def _make(tensor, address, dtype, shape, strides):
    size = tensor.element_size()
    if not address:  # no elements
        return torch.empty_strided(shape, strides, dtype=dtype, device="cpu")
    if (address - START) % size == 0:
        made = _as_strided(_flat(dtype), shape, strides, (address - START) // size)
    else:
        length = sum((n - 1) * stride for n, stride in zip(shape, strides)) + 1
        storage = torch._C._construct_storage_from_data_pointer(address, torch.device("cpu"), length * size)
        made = torch.empty(0, dtype=dtype, device="cpu").set_(storage, 0, shape, strides)
    return _lazy(tensor, made)


def _lazy(tensor, made):
    if tensor.is_conj():
        made = made.conj()
    return torch._neg_view(made) if tensor.is_neg() else made


_storages = {}  # (address, bytes): a CPU storage over a CUDA tensor's


@torch.inference_mode(False)
def apart(tensor):
    """The same as alias(), with a storage that it shares with the aliases of those tensors only with which the CUDA tensor shares its own."""
    own = tensor.untyped_storage()
    key = own.data_ptr(), own.nbytes()
    if not key[0]:
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cpu")
    storage = _storages.get(key)
    if storage is None:
        if len(_storages) >= LARGEST_CACHE:
            _storages.clear()
        storage = _storages[key] = torch._C._construct_storage_from_data_pointer(key[0], torch.device("cpu"), key[1])
    made = torch.empty(0, dtype=tensor.dtype, device="cpu").set_(storage, tensor.storage_offset(), tensor.shape, tensor.stride())
    return _lazy(tensor, made)


_REAL = {d for d in vars(torch).values() if isinstance(d, torch.dtype) and not d.is_complex}


def alias(tensor, data_ptr=torch.Tensor.data_ptr, stride=torch.Tensor.stride, is_neg=torch.Tensor.is_neg, known=_aliases):
    """A CPU tensor of the same dtype, shape and strides over the same bytes. It is shared: never resize it."""
    dtype = tensor.dtype
    key = data_ptr(tensor), dtype, tensor.shape, stride(tensor)
    made = known.get(key)
    if made is not None and not is_neg(tensor) and dtype in _REAL:
        return made
    if not key[0] or is_neg(tensor) or tensor.is_conj():
        return _make(tensor, *key)
    if made is None:
        if len(known) >= LARGEST_CACHE:
            known.clear()
        made = known[key] = _make(tensor, *key)
    return made


def place(tensor):
    """Where the CPU writes what a tensor on any device is to hold: `alias` of a GPU's, the tensor itself on the CPU."""
    return alias(tensor) if tensor.is_cuda else tensor
