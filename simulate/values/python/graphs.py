"""CUDA graphs: an operator that is captured is not computed then, as on hardware, but at each replay, in the order of the capture.

What is kept of it are CPU aliases, so the graph's memory is as much as on hardware. The graph's own copies and fills are held, as those
of every operator are: they happen as part of the operators.
"""

import ctypes
import functools
import itertools

import torch

from . import memory, native, randomness, uncomputed

recording = None  # the list of what is captured, while a graph is: (native.Captured or None, compute, result, args, kwargs, state)
_within = _wait = None
_driver = ctypes.CDLL("libcuda.so.1")  # calls let the GIL go


class Recording(list):
    """Also of what other processes take part in, and of kernels that are no operator's: between the operators before and behind them."""

    def __init__(self):
        super().__init__()
        self.first = self.known = _driver.devtrace_sim_kept_work()

    def append(self, entry):
        self.look()
        super().append(entry)

    def look(self):
        begin, self.known = self.known, _driver.devtrace_sim_kept_work()
        for number in range(begin, self.known):
            super().append((None, lambda *_, number=number: _driver.devtrace_sim_do_kept_work(number), None, (), {}, None))

    def __del__(self):
        for number in range(self.first, self.known):
            _driver.devtrace_sim_forget_kept_work(number)


def captured(compute, result, args, kwargs, state):
    """Keeps the call for the replays; false when the current stream is not being captured."""
    if recording is None or not torch.cuda.is_current_stream_capturing():
        return False
    keywords = {k: alias(v) for k, v in kwargs.items()} if kwargs else kwargs
    generator = _generator(state)
    if generator is not None:
        state = (*state[:5], (*state[2][:2], randomness.in_capture(generator)))
    recording.append((native.Captured(), compute, alias(result), tuple(alias(a) for a in args), keywords, state))
    return True


def now_or_at_replay(compute):
    """Calls it now, or at each replay of the graph that the current stream is being captured into."""
    if recording is not None and torch.cuda.is_current_stream_capturing():
        recording.append((None, lambda *_: compute(), None, (), {}, None))
    else:
        compute()


def alias(value):
    if isinstance(value, torch.Tensor):
        return memory.alias(value) if value.is_cuda and value.layout is torch.strided else value
    if isinstance(value, (list, tuple)):
        return type(value)(alias(v) for v in value)
    return value


def _generator(state):
    return state[1] if state else None


def _at(state, positions):
    """The state of an operator at a replay that finds the generators at `positions`, by generator."""
    generator = _generator(state)
    if generator is None:
        return state
    place, after = (randomness.in_replay(state[i], positions[generator]) for i in (2, 5))
    return (*state[:2], place, *state[3:5], after)


def install(within, wait):
    global _within, _wait
    _within, _wait = within, wait
    graph = torch.cuda.CUDAGraph
    begin, end, replay, reset = graph.capture_begin, graph.capture_end, graph.replay, graph.reset

    def capture_begin(self, *args, **kwargs):
        global recording
        begin(self, *args, **kwargs)
        recording = self._devtrace_operators = Recording()
        randomness.begin_capture()
        native.record(True)
        _driver.devtrace_sim_keep_work(1)

    def capture_end(self):
        global recording
        if recording is not None:
            recording.look()
        recording = None
        native.record(False)
        _driver.devtrace_sim_keep_work(0)
        return end(self)

    def replay_computed(self):
        # The real replay moves them on.
        generators = {_generator(state) for *_, state in self._devtrace_operators} - {None}
        positions = {generator: randomness.position(generator) for generator in generators}
        result = replay(self)

        def compute_all(entries):
            for quick, compute, result, args, kwargs, state in entries:
                if quick and (native.follows() or not uncomputed.any_uncomputed()) and quick.replay():
                    continue
                compute(result, args, kwargs, _at(state, positions))
                plan = getattr(compute, "plan", None) or getattr(compute, "__self__", None)
                if plan is not None and uncomputed.any_uncomputed():
                    uncomputed.Follow(plan)(args, kwargs, result)

        # A compiled graph may ask the device for an operator, which computes nothing within another one.
        for outside, entries in itertools.groupby(self._devtrace_operators, lambda entry: hasattr(entry[1], "outside")):
            if outside:
                _wait()
                compute_all(entries)
            else:
                _within(functools.partial(compute_all, entries))
        return result

    def reset_operators(self):
        self._devtrace_operators = []
        return reset(self)

    graph.capture_begin, graph.capture_end, graph.replay, graph.reset = capture_begin, capture_end, replay_computed, reset_operators
