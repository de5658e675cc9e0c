"""What torch.compile generates, computed: the graph that Inductor has compiled is gone through on the CPU, operator by operator.

The compiled code runs as on hardware, with its checks and launches, but computes nothing; then its results are put where they belong.
"""

import copy
import functools
import os
import pickle
import sys

import torch

from . import graphs, imported, memory, uncomputed, wider

Tensor = torch.Tensor
CPU = torch.device("cpu")
_around = _unwatched = _compiled = None  # set by install
_compiling = []  # the graph that Inductor has been given last


def install(around, unwatched, code_is_compiled):
    """Whoever calls Inductor: torch.compile, standalone_compile, or what loads what one of them has saved."""
    global _around, _unwatched, _compiled
    _around, _unwatched, _compiled = around, unwatched, code_is_compiled
    imported.change({
        "torch._inductor.output_code": compute_what_is_called,
        "torch._inductor.compile_fx": keep_what_is_compiled,
        "torch._inductor.codecache": keep_with_entries,
        "torch._inductor.runtime.benchmarking": measure_nothing,
        "torch._inductor.codegen.wrapper": tune_nothing,
        "torch._inductor.codegen.triton": try_nothing_fused,
    })  # fmt: skip


class Kept:
    """A graph beside the code that it was compiled to. Wherever that is pickled it is bytes, which anybody reads."""

    def __init__(self, graph):
        self.graph = graph

    def __reduce__(self):
        try:
            return bytes, (pickle.dumps(self.graph),)
        except Exception:  # not computed where it is found again, and listed
            return bytes, ()


# Properties and functions in C: what they return is called without a frame of ours in the program's stacks.


def compute_what_is_called(output_code):
    real = output_code.CompiledFxGraph.__call__

    def call(self):
        graph, own = graph_of(self), real.__get__(self)
        return own if graph is None else functools.partial(_around, True, functools.partial(compute, graph), own, finish)

    output_code.CompiledFxGraph.__call__ = property(call)


def graph_of(compiled):
    kept = compiled.__dict__.get("_devtrace_graph")
    if isinstance(kept, bytes):
        kept = compiled._devtrace_graph = Kept(_unwatched(lambda: unpickled(kept)))
    return kept and kept.graph


def unpickled(kept):
    try:
        return pickle.loads(kept)
    except Exception as error:
        if os.environ.get("DEVTRACE_SIM_VERBOSE") == "1":
            print(f"devtrace: a compiled graph is not computed: {type(error).__name__}: {error}", file=sys.stderr)
        return None


def keep_what_is_compiled(compile_fx):
    def before(gm, *args, **kwargs):
        _compiled()
        _compiling[:] = [Kept(torch.fx.GraphModule(gm, copy.deepcopy(gm.graph)))]  # what follows changes it
        return _compiling[0]

    def after(kept, compiled):
        if isinstance(compiled, compile_fx.CompiledFxGraph):
            compiled._devtrace_graph = kept

    compile_fx._compile_fx_inner = functools.partial(_around, False, before, compile_fx._compile_fx_inner, after)


def keep_with_entries(codecache):
    """A cache's entry is compiled code alone: the graph goes with it."""

    def before_saving(key, compiled, *args, **kwargs):
        if _compiling:
            compiled._devtrace_graph = _compiling[0]

    caches = codecache.FxGraphCache
    caches._save_graph = staticmethod(functools.partial(_around, False, before_saving, caches._save_graph, None))
    keep_caches_apart(codecache.torch_key)


def keep_caches_apart(torch_key):
    """Entries of other runs have no graph, and what a rehearsal measures is nothing for hardware: keys of its own for all that Inductor keeps."""
    within = dict(zip(torch_key.__code__.co_freevars, torch_key.__closure__))
    real = within["func"].cell_contents
    within["func"].cell_contents = lambda: real() + b" in a rehearsal, graphs beside all code"
    torch_key.clear()  # where it is known already


# What Inductor measures decides what it generates.


def measure_nothing(benchmarking):
    """It flushes the device's cache before each of hundreds of launches: there is none to flush."""
    benchmarker = getattr(benchmarking, "InductorBenchmarker", None)
    if benchmarker:
        benchmarker.L2_cache_size = 4
    launches_itself(benchmarker, "benchmark_gpu")


def tune_nothing(wrapper):
    launches_itself(getattr(wrapper, "PythonWrapperCodegen", None), "generate_and_run_autotune_block")


def try_nothing_fused(triton):
    """Kernels that are tried fused and alone: what they launch is not all given to what measures."""
    for name in ("benchmark_codegened_module", "benchmark_combo_kernel"):
        launches_itself(getattr(triton, "TritonScheduling", None), name)


def launches_itself(owner, name):
    """A method that launches what it generates with whatever lies in memory: nothing that a program misses."""
    real = getattr(owner, name, None)
    if real:
        setattr(owner, name, property(lambda self: functools.partial(_around, True, lambda *args, **kwargs: True, real.__get__(self), lambda *both: None)))


def compute(kept, inputs):
    """What finish() needs once the compiled code has run; None: it is not computed here."""
    device = next((t.device for t in inputs if isinstance(t, Tensor) and t.is_cuda), None) or device_of(kept)
    if device is None:
        return None
    given = [graphs.alias(value) for value in inputs]  # the compiled code empties the list
    if graphs.recording is not None and torch.cuda.is_current_stream_capturing():
        return kept, device, given, None
    try:
        return kept, device, given, _unwatched(lambda: evaluate(kept, device, given))
    except Exception as error:
        if os.environ.get("DEVTRACE_SIM_VERBOSE") == "1":
            print(f"devtrace: a compiled graph is not computed: {type(error).__name__}: {error}", file=sys.stderr)
        return None


def device_of(kept):
    """Where a graph works that is given no tensor of a device: it makes tensors (create_block_mask), or holds them."""
    if not hasattr(kept, "_devtrace_device"):
        asked = (value for node in kept.graph.nodes for value in (*node.args, *node.kwargs.values()) if isinstance(value, torch.device))
        kept._devtrace_device = next((d for d in (*asked, *(t.device for t in kept.buffers())) if d.type == "cuda"), None)
    return kept._devtrace_device


def finish(state, results):
    kept, device, given, found = state
    if found is not None:
        _unwatched(lambda: put(results, given, found))
        return
    places = [graphs.alias(value) for value in results]

    def replay(*_):
        _unwatched(lambda: put(places, given, evaluate(kept, device, given)))

    replay.outside = True
    graphs.recording.append((None, replay, None, (), {}, None))


def evaluate(kept, device, given):
    """The results, and what inputs hold afterwards, by position."""
    run = OnCpu(kept, device)
    with torch.no_grad():
        results = run.run(*given)
    return results if isinstance(results, (list, tuple)) else (results,), run.written


def put(places, given, found):
    results, written = found
    with torch.no_grad():
        for i, value in written.items():
            given[i].copy_(value)
        for place, value in zip(places, results):
            if isinstance(place, Tensor) and isinstance(value, Tensor) and place.numel():
                into = memory.alias(place) if place.is_cuda else place
                if into.data_ptr() != value.data_ptr():
                    into.copy_(value)
    if uncomputed.any_uncomputed():
        uncomputed.follow(uncomputed.ranges(given), uncomputed.ranges([*places, *(given[i] for i in written)]), False)


class OnCpu(torch.fx.Interpreter):
    """Goes through a graph for CUDA with the inputs' aliases. Operators that the CPU lacks, and random numbers, are asked of the device."""

    def __init__(self, kept, device):
        super().__init__(kept)
        self.device = device
        self.written = {}
        self.places = {node: i for i, node in enumerate(n for n in kept.graph.nodes if n.op == "placeholder")}
        self.node = None

    def run_node(self, n):
        self.node = n
        return super().run_node(n)

    def get_attr(self, target, args, kwargs):
        return graphs.alias(super().get_attr(target, args, kwargs))

    def call_function(self, target, args, kwargs):
        name = target._schema.name + ("." + target._schema.overload_name if target._schema.overload_name else "") if hasattr(target, "_schema") else ""
        own = self.node.args[0] if self.node.args else None
        if name == "aten::copy_" and own in self.places:
            # The last of a graph: inputs that it writes to. They are read until then, and by the compiled code.
            self.written[self.places[own]] = args[1].expand(args[0].shape)
            return args[1]
        if name == "prims::inductor_random":
            return inductor_random(*args, **kwargs)
        if name == "prims::inductor_randint":
            low, high, size, seed = args
            return torch.randint(low, high, size, generator=generator(seed), device="cpu")
        if hasattr(target, "tags") and torch.Tag.nondeterministic_seeded in target.tags or name == "prims::inductor_seeds":
            return self.on_device(target, args, kwargs)
        args, kwargs = each((args, kwargs), lambda value: CPU if isinstance(value, torch.device) else value)
        try:
            if name in wider.SLOW:
                return in_float(target, args, kwargs)
            return target(*args, **kwargs)
        except Exception:
            return self.on_device(target, args, kwargs)

    def on_device(self, target, args, kwargs):
        args, kwargs = each((args, kwargs), lambda v: v.to(self.device) if isinstance(v, Tensor) else self.device if isinstance(v, torch.device) else v)
        return each(target(*args, **kwargs), lambda v: v.cpu() if isinstance(v, Tensor) else v)


def each(value, change):
    return torch.utils._pytree.tree_map(change, value)


def in_float(target, args, kwargs):
    """Half precision for which the CPU has a slow kernel only."""
    halves = any(isinstance(a, Tensor) and a.dtype in wider.IN_FLOAT for a in args)
    if not halves:
        return target(*args, **kwargs)
    args = [a.to(wider.IN_FLOAT[a.dtype]) if isinstance(a, Tensor) and a.dtype in wider.IN_FLOAT else a for a in args]
    return each(target(*args, **kwargs), lambda v: v.half() if isinstance(v, Tensor) and v.dtype is torch.float32 else v)


def generator(seed):
    made = torch.Generator()
    made.manual_seed(int(seed))
    return made


def inductor_random(size, seed, mode, *, align_dtype=torch.float32):
    """The same numbers for a seed in the backward as in the forward."""
    return getattr(torch, mode)(size, generator=generator(seed), dtype=align_dtype, device="cpu")
