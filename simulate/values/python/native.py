"""The quick way to true values: kernels in C++ (../torch) in front of this package's, for each PyTorch that they were compiled for.

With any other, or with DEVTRACE_SIM_VALUES=python, this package is alone: the same values, more slowly.
"""

import ctypes
import os

import torch

from . import exceptions

GATE, PLAIN, NESTED_TOO, GROWS, NOT_MASKS, RANDOM = range(6)  # see How in ../torch/plan.h
_library = None


def start():
    """Before any operator is replaced."""
    global _library
    top = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    path = os.path.join(top, "torch", f"libcuda_values-{torch.version.git_version}.so")
    if os.environ.get("DEVTRACE_SIM_VALUES") == "python" or not os.path.exists(path):
        return
    try:
        library = ctypes.CDLL(path, mode=os.RTLD_NOW)
    except OSError:  # built from the same sources, but in a way of its own
        return
    library.devtrace_values_before.restype = ctypes.c_void_p
    library.devtrace_values_after.argtypes = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
    library.devtrace_values_captured.restype = ctypes.c_long
    library.devtrace_values_mirrored.argtypes = ctypes.c_int, ctypes.c_ulong, ctypes.c_ulong
    library.devtrace_values_replay.argtypes = library.devtrace_values_forget.argtypes = (ctypes.c_long,)
    if library.devtrace_values_start("\n".join(exceptions.NOT_FOR_VALUES).encode()):
        _library = library


def started():
    return _library is not None


def before(name, key, how):
    """Before the operator's real kernel for a dispatch key is taken and replaced; what after() needs."""
    if _library is None:
        return None
    qualified, _, overload = name.partition(".")
    return _library.devtrace_values_before(qualified.encode(), overload.encode(), key == "SparseCUDA", how)


def after(begun, out, again):
    """`out`: the overload that writes the same into a given tensor (of one with out=: that has none), or None.

    `again`: whether a real kernel that fails may be tried again.
    """
    if begun is not None:
        _library.devtrace_values_after(begun, (out or "").encode(), again)


def listen():
    """After the first look: install.cpp hears of operators that are defined from now on. False: it does not."""
    return _library is not None and _library.devtrace_values_listen() == 1


def record(on):
    """While a graph is captured every operator comes to this package, which keeps their order."""
    if _library is not None:
        _library.devtrace_values_record(on)


def mirrored(place):
    """The numbers that are drawn at (device, seed, offset) go on from others, which randomness.py knows."""
    if _library is not None:
        device, seed, offset = place
        _library.devtrace_values_mirrored(-1 if device is None else device, seed, offset)


def forget_mirrored():
    if _library is not None:
        _library.devtrace_values_forget_mirrored()


def follows():
    """Whether a replay in C++ knows what nobody computed: --values small, and a PyTorch that has such replays."""
    return _library is not None and _library.devtrace_values_follow() == 1


class Captured:
    """The call that a graph captures on this thread, for its replays."""

    def __init__(self):
        self.number = _library.devtrace_values_captured() if _library is not None else 0

    def replay(self):
        """Whether it is computed now; else this package has to do it."""
        return self.number and _library.devtrace_values_replay(self.number)

    def __del__(self):
        if self.number:
            _library.devtrace_values_forget(self.number)
