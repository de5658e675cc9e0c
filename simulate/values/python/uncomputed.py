"""Memory that nobody computed, at the level of operators: what is computed from it is as little computed, and is told where the host reads it.

The ranges themselves are kept in ../uncomputed.cpp, where kernels and copies see them too.
"""

import threading

import torch

from . import memory

any_uncomputed = follow = _mark = None  # set by install
_state = threading.local()  # just_marked: the operator itself was not computed

# In-place operators that forget what was there.
OVERWRITE = {"copy_", "zero_", "fill_", "_foreach_zero_", "_foreach_copy_", "eye_", "set_"}
# More rows of a strided tensor are taken as one piece.
MOST_ROWS = 4096


def install(any_function, follow_function, mark_function):
    global any_uncomputed, follow, _mark
    any_uncomputed, follow, _mark = any_function, follow_function, mark_function


def mark(plan, result, args, kwargs):
    """The operator was not computed."""
    written = [_argument(plan, name, args, kwargs) for name in plan.writes]
    _mark(plan.name, ranges([result, *written]))
    _state.just_marked = True


class Follow:
    """Called with an operator's arguments and result once it is computed, while there is uncomputed memory."""

    def __init__(self, plan):
        self.plan = plan
        name = plan.name.partition("::")[2].partition(".")[0]
        self.overwrites = name in OVERWRITE or (plan.random and name.endswith("_"))
        self.by_values = plan.grows

    def __call__(self, args, kwargs, result):
        if getattr(_state, "just_marked", False):
            _state.just_marked = False
            return
        plan, kwargs = self.plan, kwargs or {}
        forgets = plan.writes if self.overwrites else plan.outs
        forgotten = {id(_argument(plan, name, args, kwargs)) for name in forgets}
        read = [a for a in (*args[1:], *kwargs.values()) if id(a) not in forgotten]
        written = [_argument(plan, name, args, kwargs) for name in plan.writes]
        follow(ranges(read), ranges([result, *written]), self.is_told(args, kwargs, result))

    def is_told(self, args, kwargs, result):
        """Whether the host, or the program's way, learns something of the operands' values."""
        if self.by_values:
            return not self.plan.name.startswith("aten::index.Tensor") or any(_is_mask(i) for i in args[2] or ())
        results = result if isinstance(result, (tuple, list)) else (result,)
        return any(not isinstance(r, torch.Tensor) or not _on_device(r) for r in results if r is not None)


def _is_mask(index):
    return index is not None and index.dtype in (torch.bool, torch.uint8)


def _argument(plan, name, args, kwargs):
    place = plan.places[name]
    return args[place] if place < len(args) else (kwargs or {}).get(name)


def _on_device(tensor):
    """Also of the aliases that a graph keeps. The host's own memory is not followed: what is written there is told."""
    return tensor.is_cuda or (tensor.device.type == "cpu" and tensor.layout is torch.strided and tensor.untyped_storage().data_ptr() == memory.START)


def ranges(values):
    """Addresses and sizes, by turns, of the memory of all tensors on devices in there."""
    found = []
    for value in values:
        _add(value, found)
    return tuple(found)


def _add(value, found):
    if isinstance(value, (list, tuple)):
        for each in value:
            _add(each, found)
    elif isinstance(value, torch.Tensor):
        for dense in _dense(value):
            _add_dense(dense, found)


def _dense(tensor):
    if tensor.layout is torch.strided:
        return (tensor,) if not tensor.is_nested else (tensor.values(),) if hasattr(tensor, "_values") else ()
    if tensor.layout is torch.sparse_coo:
        return tensor._indices(), tensor._values()
    return (tensor.values(),)


def _add_dense(tensor, found):
    if not tensor.numel() or not _on_device(tensor):
        return
    size = tensor.element_size()
    # The dimensions that lie behind each other make one piece.
    piece, rows = 1, []
    for length, stride in sorted(zip(tensor.shape, tensor.stride()), key=lambda each: each[1]):
        if length == 1 or stride == 0:
            continue
        if stride == piece and not rows:
            piece *= length
        else:
            rows.append((length, stride))
    starts, count = [tensor.data_ptr()], 1
    for length, _ in rows:
        count *= length
    if count > MOST_ROWS:
        found += starts[0], (piece + sum((length - 1) * stride for length, stride in rows)) * size
        return
    for length, stride in rows:
        starts = [start + i * stride * size for start in starts for i in range(length)]
    for start in starts:
        found += start, piece * size
