"""Random numbers: a function of the CUDA generator's seed and of how far it is, so that a seed repeats them.

The real kernel moves the CUDA generator on. The numbers are the CPU generator's: after a seed's first draws it goes on as on the CPU, so
that a short program draws the same numbers there. Later, or wherever a saved state is set again, it is seeded from (seed, offset).
"""

import ctypes
import threading

import torch

from . import native

MIRRORED = 64  # draws after a seed that go on as on the CPU
LARGEST_CACHE = 64 * MIRRORED
_states = {}  # (device, seed, offset): (state of the CPU generator there, draws since the seed)
_own = threading.local()
_captured = {}  # generator: how far the graph that is captured has moved it on by now


def device_of(value):
    """The first CUDA device among tensors."""
    if isinstance(value, torch.Tensor):
        return value.device if value.is_cuda else None
    if isinstance(value, dict):
        value = value.values()
    if isinstance(value, (list, tuple)) or hasattr(value, "__iter__") and not isinstance(value, str):
        return next((d for d in map(device_of, value) if d is not None), None)
    return None


def cuda_generator(args, kwargs):
    """The one that an operator draws from; None when it draws from none."""
    for given in (*args, *kwargs.values()):
        if isinstance(given, torch.Generator):
            return given if given.device.type == "cuda" else None
    device = device_of(args) or device_of(kwargs)
    return None if device is None else torch.cuda.default_generators[device.index]


def position(generator):
    """(device, seed, offset), made of what the real kernels use. While a graph is captured: the offset from where a replay begins."""
    try:
        seed, offset = generator.initial_seed(), generator.get_offset()
    except AttributeError:  # an older PyTorch
        seed, offset = (int(word) for word in generator.get_state().view(torch.int64)[-2:])
    except RuntimeError:
        seed, offset = 0, _captured.get(generator, 0)  # a replay has its own seed
    return generator.device.index, seed & 0xFFFFFFFFFFFFFFFF, offset


class _Philox(ctypes.Structure):
    """at::PhiloxCudaState."""

    _fields_ = [("seed", ctypes.c_uint64), ("offset", ctypes.c_uint64), ("in_graph", ctypes.c_uint32), ("rest", ctypes.c_uint32 * 3)]


def _asked():
    try:
        function = ctypes.CDLL("libtorch_cuda.so")["_ZN2at17CUDAGeneratorImpl17philox_cuda_stateEm"]
    except (OSError, AttributeError):
        return None
    function.restype, function.argtypes = _Philox, (ctypes.c_void_p, ctypes.c_uint64)
    return function


_philox = None


def begin_capture():
    global _philox
    _philox = _philox or _asked()
    _captured.clear()


def in_capture(generator):
    """How far the captured graph has moved the generator on, after an operator that drew from it: only that shows that it is the graph's."""
    if _philox is not None:
        implementation = ctypes.c_void_p.from_address(id(generator) + object.__basicsize__)  # at::Generator of a THPGenerator
        _captured[generator] = _philox(implementation, 0).in_graph
    else:
        _captured[generator] = _captured.get(generator, 0) + (1 << 40)
    return _captured[generator]


def in_replay(captured, position):
    """Where a captured operator's random numbers are, once the generator's position before the replay is known."""
    device, seed, offset = position
    return device, seed, offset + captured[2]


def seed_at(place):
    _, seed, offset = place
    return (seed + offset * 0x9E3779B97F4A7C15) & 0x7FFFFFFFFFFFFFFF


def generator_at(place):
    """This thread's CPU generator, as it is there; and how many draws that is after the seed, MIRRORED when unknown."""
    draw = getattr(_own, "draw", None)
    if draw is None:
        draw = _own.draw = torch.Generator(device="cpu")
    state, draws = _states.get(place, (None, 0))
    if state is not None:
        draw.set_state(state)
        return draw, draws
    if place[2] == 0:
        draw.manual_seed(place[1])
        return draw, 0
    return draw.manual_seed(seed_at(place)), MIRRORED


def drawn(place, draw, draws):
    """Remembers where the CPU generator is now that the CUDA one is further, at `place`."""
    if draws >= MIRRORED:
        return
    if len(_states) >= LARGEST_CACHE:
        _states.clear()
        native.forget_mirrored()
    _states[place] = draw.get_state(), draws + 1
    native.mirrored(place)
