"""Operators that the general way does not fit, by name; each row says why."""

import torch

from .numbers import wrapped

# What PyTorch refuses for the program's sake, not for a missing value's: mixed devices, and what the program has forbidden itself.
# Not the tracker's table (tracker/refusals/patterns.inc), which tells refusals apart: one that is missing here costs a second try.
REFUSED = (
    "on the same device", "should be either on", "does not have a deterministic implementation", "called a synchronizing CUDA operation",
    "not permitted when stream is capturing",
)  # fmt: skip


def is_refused(error):
    return any(text in str(error) for text in REFUSED)


# Nor is tried again what speaks of devices, which is told once, or of what more computing does not change.
NOT_FOR_VALUES = (*REFUSED, "device", "CUDA", "CPU", "out of memory", "not implemented for")


def may_be_for_values(error):
    """Whether a real kernel that failed is tried again with its nested operators computed. `error`: the exception or its text."""
    return not any(text in str(error) for text in NOT_FOR_VALUES)


# Their CUDA kernels look at values that other operators computed, and refuse some: those nested operators are computed, too.
NESTED_TOO = {
    "aten::linalg_eig", "aten::linalg_eig.out", "aten::linalg_eigvals", "aten::linalg_eigvals.out", "aten::_linalg_eigvals",
    "aten::segment_reduce", "aten::linalg_matrix_exp", "aten::_segment_reduce_backward", "aten::normal.Tensor_Tensor", "aten::normal.Tensor_Tensor_out",
    "aten::normal.float_Tensor", "aten::normal.float_Tensor_out", "aten::isin.Tensor_Tensor", "aten::isin.Tensor_Tensor_out",
    "aten::isin.Tensor_Scalar", "aten::_assert_async", "aten::_assert_async.msg",
}  # fmt: skip

# Their CUDA kernels assert about what they themselves have written.
MAY_FAIL = {"aten::mode", "aten::mode.values"}


def reads_indices(args, kwargs):
    """Whether the kernel reads indices with nested operators: the places of a mask, and what it copies to a tensor on the CPU."""
    indices = args[2] if len(args) > 2 else kwargs.get("indices", ())
    return any(i is not None and (i.dtype in (torch.bool, torch.uint8) or (i.is_cuda and not args[1].is_cuda)) for i in indices)


# The same, but for some arguments only; they write to an argument, which is put back before computing.
NESTED_TOO_WHEN = {"aten::_index_put_impl_": reads_indices}


def _pow(op, real):
    return lambda keys, base, exponent: torch.ops.aten.pow.Tensor_Tensor._op(wrapped(base), exponent)


def _pow_out(op, real):
    return lambda keys, base, exponent, out: torch.ops.aten.pow.Tensor_Tensor_out._op(wrapped(base), exponent, out=out)


def _in_sequence(position):
    def make(op, real):
        tensor_op = op._overloadpacket.Tensor._op

        def call(keys, *args, **kwargs):
            args = list(args)
            sequence = args[1 - position]
            args[position] = torch.full((), args[position], dtype=torch.result_type(sequence, args[position]), device=sequence.device)
            return tensor_op(*args, **kwargs)

        return call

    return make


def _isin(op, real):
    overload = "Tensor_Tensor_out" if any(a.is_out for a in op._schema.arguments) else "Tensor_Tensor"
    tensor_op = getattr(op._overloadpacket, overload)._op

    def call(keys, number, tests, *args, **kwargs):
        return tensor_op(torch.full((), number, dtype=torch.result_type(tests, number), device=tests.device), tests, *args, **kwargs)

    return call


# Their real kernels make a number a tensor on the device, marked as a number, which PyTorch cannot hand to Python.
INSTEAD = {
    "aten::pow.Scalar": _pow,
    "aten::pow.Scalar_out": _pow_out,
    "aten::isin.Scalar_Tensor": _isin,
    "aten::isin.Scalar_Tensor_out": _isin,
    "aten::searchsorted.Scalar": _in_sequence(1),
    "aten::bucketize.Scalar": _in_sequence(0),
}
