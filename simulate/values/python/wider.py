"""What the CPU computes in when it has no kernel for a type that CUDA's has; the result is rounded."""

import re

import torch

NARROW = {torch.float16: torch.float32, torch.bfloat16: torch.float32, torch.complex32: torch.complex64}
NARROW |= {d: torch.float32 for name, d in vars(torch).items() if name.startswith("float8_") and isinstance(d, torch.dtype)}

# Whole numbers, once the CPU has said that it lacks a kernel for them: exact in these types, as far as they reach.
WHOLE = {torch.bool: torch.uint8, torch.uint8: torch.float32, torch.int8: torch.float32, torch.int16: torch.float32}
WHOLE |= {torch.uint16: torch.int32, torch.uint32: torch.int64, torch.int32: torch.float64, torch.int64: torch.float64}
# As the CPU's messages name them.
NAMES = {"Bool": "bool", "Byte": "uint8", "Char": "int8", "Short": "int16", "Int": "int32", "Long": "int64", "UInt16": "uint16", "UInt32": "uint32"}

# Half precision for which the CPU has a kernel, but one of 20 to 70 times float32's time; ../torch/kernels.cpp has the first of them, too.
SLOW = {
    name + overload
    for name in ("aten::mm", "aten::bmm", "aten::addmm", "aten::baddbmm", "aten::_addmm_activation", "aten::convolution", "aten::convolution_backward")
    for overload in ("", ".out")
}  # fmt: skip
IN_FLOAT = {torch.float16: torch.float32}

# Arguments that hold places, not numbers: never widened.
PLACES = {"index", "indices", "offsets", "target", "pivots", "inverse", "pos", "self_indices", "offset2bag", "maximum_indices", "batch_offsets"}

ABOUT_TYPES = (
    "not implemented for", "not supported", "does not support", "unsupported", "scalar type", "dtype", "data type",
    "on the CPU", "on CPU", "Unrecognized ScalarType", "can't be cast", "Unsupported", "be type", "of type", "could not create a primitive",
)  # fmt: skip


def is_about_types(error):
    """Whether the CPU refuses what the real kernel took, and not the values that only the CPU sees."""
    return isinstance(error, NotImplementedError) or any(text in str(error) for text in ABOUT_TYPES)


def of(error, types):
    """`types` and the type that the message names, if that is not among them."""
    named = re.search(r"not implemented for '(\w+)'", str(error))
    dtype = getattr(torch, NAMES.get(named.group(1), ""), None) if named else None
    return {**types, dtype: WHOLE[dtype]} if dtype is not None and dtype not in types else types


class Widened:
    """One call's arguments in wider types."""

    def __init__(self, types):
        self.types = types
        self.made = []  # (the alias, its copy in a wider type)
        self.any = False

    def tensor(self, value):
        if value.dtype not in self.types:
            return value
        wide = value.to(self.types[value.dtype])
        self.made.append((value, wide))
        self.any = True
        return wide

    def sparse(self, value):
        if value.dtype not in self.types:
            return value
        self.any = True
        return value.to(self.types[value.dtype])

    def write_back(self):
        for value, wide in self.made:
            value.copy_(wide)
