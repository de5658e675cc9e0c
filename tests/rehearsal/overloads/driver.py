"""Every overload that has a CUDA kernel, over the types that CUDA takes, on cuda:0 and on the CPU. Runs under `devtrace rehearse` (run.py).

Writes JSON lines: {"event":"begin","op":OVERLOAD} … {"event":"end","op":OVERLOAD,"counts":{KIND:number},"kinds":{KIND:[[what, why], …]}}, {"event":"done"}.
Kinds: equal; random (of the right type and shape); refused (PyTorch's real CUDA code refuses the type); refused_alone (it refuses, for another reason, what
the CPU takes). not_computed (told by name); no_reference
(nothing on the CPU to compare with); wrong.
"""

import argparse
import json
import os
import pickle
import sys
import traceback
import warnings

import synthesis
import torch
from torch.utils._pytree import tree_flatten, tree_map

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
TYPES = (*FLOATS, torch.complex64, torch.complex32, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool)
WIDE = {torch.float16: torch.float32, torch.bfloat16: torch.float32, torch.complex32: torch.complex64}
WHOLE = {d: torch.float64 for d in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool)}
KEYS = ("CUDA", "SparseCUDA", "SparseCsrCUDA")
# Nobody's values: what lay in memory, communication, what belongs to another library or compiler.
LEFT_OUT_NAMESPACES = ("c10d", "symm_mem", "_c10d_functional", "prims", "profiler", "debugprims", "inductor")
LEFT_OUT = ("aten::empty", "aten::cudnn_", "aten::_cudnn", "aten::miopen_", "aten::_use_", "aten::_triton", "aten::record_stream", "aten::resize_", "aten::set_",
            "aten::_local_scalar_dense", "aten::is_pinned", "aten::_pin_memory", "aten::is_set_to", "aten::_cslt", "aten::_reshape_alias", "aten::_efficientzerotensor",
            "aten::_fused_sdp_choice", "aten::_assert_async", "aten::as_strided", "aten::unfold", "aten::view", "aten::_nested")  # fmt: skip
MOST_TOLD = 4


def overload(name):
    qualified, _, overload_name = name.partition(".")
    namespace, _, packet = qualified.partition("::")
    return getattr(getattr(getattr(torch.ops, namespace), packet), overload_name or "default")


def all_overloads():
    names = {n for key in KEYS for n in torch._C._dispatch_get_registrations_for_dispatch_key(key)}
    return sorted(n for n in names if n.partition("::")[0] not in LEFT_OUT_NAMESPACES and not n.startswith(LEFT_OUT))


def is_random(op):
    return torch.Tag.nondeterministic_seeded in op.tags or any(str(a.type) == "Optional[Generator]" for a in op._schema.arguments)


# -- which calls

def base_calls(name, op, gathered):
    """Calls of the overload itself, or of the one that it is the out= or in-place form of; without out= arguments."""
    if name in gathered:
        return gathered[name]
    if op._schema.name in synthesis.CALLS:
        return synthesis.CALLS[op._schema.name]
    arguments = [(a.name, str(a.type)) for a in op._schema.arguments if not a.is_out]
    qualified = op._schema.name
    for packet in dict.fromkeys((qualified, qualified.removesuffix("_"), qualified + "_")):  # no set: each run makes the same calls
        for other, calls in gathered.items():
            if other.partition(".")[0] == packet:
                if [(a.name, str(a.type)) for a in overload(other)._schema.arguments if not a.is_out] == arguments:
                    return calls
    return synthesis.guesses(op._schema)


def retyped(value, dtype, first):
    """The call's tensors of the type of its first floating (or only) one, in another type."""
    def one(leaf):
        if isinstance(leaf, torch.Tensor) and leaf.dtype == first:
            if dtype.is_complex and not leaf.is_complex():
                return torch.complex(leaf.float(), leaf.float() / 2).to(dtype)
            if leaf.is_complex() and not dtype.is_complex:
                leaf = leaf.real
            if not dtype.is_floating_point and not dtype.is_complex and leaf.is_floating_point():
                leaf = leaf.nan_to_num(0, 3, -3).clamp(-8, 8) * 2
                leaf = leaf.abs() if not dtype.is_signed else leaf
            return leaf.to(dtype)
        return leaf
    return tree_map(one, value)


def typed_calls(op, calls):
    """(the call, its type) over all types; and with each dtype= argument."""
    dtypes = [a.name for a in op._schema.arguments if "ScalarType" in str(a.type) or a.name in ("dtype", "out_dtype", "input_dtype")]
    halves = [a.name for a in op._schema.arguments if a.name == "half_to_float"]
    for args, kwargs in calls[:3]:
        tensors = [t for t in tree_flatten((args, kwargs))[0] if isinstance(t, torch.Tensor)]
        first = next((t.dtype for t in tensors if t.is_floating_point() or t.is_complex()), tensors[0].dtype if tensors else None)
        yield (args, kwargs), first
        for dtype in TYPES if first is not None else ():
            changed = retyped((args, kwargs), dtype, first)
            if dtype != first:
                yield changed, dtype
            for name in dtypes:
                for wanted in (torch.float32, torch.float64, torch.float16):
                    yield with_argument(op, changed, name, wanted), dtype
            if halves and dtype in (torch.float16, torch.bfloat16):
                yield with_argument(op, changed, "half_to_float", True), dtype


def with_argument(op, call, name, value):
    args, kwargs = list(call[0]), dict(call[1])
    places = [a.name for a in op._schema.arguments if not a.kwarg_only]
    if name in places and places.index(name) < len(args):
        args[places.index(name)] = value
    else:
        kwargs[name] = value
    return tuple(args), kwargs


# -- one call on a device

def on(value, device):
    def one(leaf):
        if isinstance(leaf, torch.Tensor):
            made = torch.empty_strided(leaf.shape, leaf.stride(), dtype=leaf.dtype, device=device) if overlaps_not(leaf) else None
            return made.copy_(leaf) if made is not None else leaf.to(device)
        return torch.device(device) if isinstance(leaf, torch.device) else leaf
    return tree_map(one, value)


def overlaps_not(tensor):
    return tensor.layout == torch.strided and tensor.dtype not in (torch.complex32,) and 0 not in tensor.stride()


def widened(value, types):
    def one(leaf):
        if isinstance(leaf, torch.Tensor):
            return leaf.to(types.get(leaf.dtype, leaf.dtype))
        return types.get(leaf, leaf) if isinstance(leaf, torch.dtype) else leaf
    return tree_map(one, value)


def outs_like(op, results, form):
    """Memory for out=: exact, strided or empty."""
    made = {}
    for argument, like in zip([a for a in op._schema.arguments if a.is_out], results):
        if str(argument.type) != "Tensor":
            raise TypeError("lists of out=")
        if form == "strided" and like.dim():
            place = torch.full((*like.shape[:-1], 2 * like.size(-1)), 1, dtype=like.dtype, device=like.device)[..., ::2]
        else:
            place = torch.full(like.shape if form == "exact" else (0,), 1, dtype=like.dtype, device=like.device)
        made[argument.name] = place
    return made


def run(op, call, device, outs=None):
    args, kwargs = on(call, device)
    torch.manual_seed(0)
    result = op(*args, **kwargs, **(on(outs, device) if outs else {}))
    written = [a for a, argument in zip(args, op._schema.arguments) if argument.alias_info is not None and argument.alias_info.is_write]
    torch.cuda.synchronize()
    return [t for t in tree_flatten((result, written))[0]]


class Watch:
    """What the rehearsal's own computing does while a call runs."""

    def __init__(self):
        self.compute = sys.modules["_devtrace_values.compute"]
        self.missing = []
        self.own = self.compute.not_computed
        self.compute.not_computed = self.keep_reason

    def keep_reason(self, name, reason):
        self.missing.append(f"{name}: {reason}")
        self.own(name, reason)

    def raised_by_computing(self, error):
        return any("devtrace_values/compute.py" in frame.filename for frame in traceback.extract_tb(error.__traceback__))


def reference(op, call):
    """The CPU's results without out=, in the same types or in wider ones, None where there are none; and why not in the same types."""
    problem = None
    for types in ({}, WIDE, {**WIDE, **WHOLE}):
        wide = widened(call, types)
        if types and "half_to_float" in [a.name for a in op._schema.arguments]:
            wide = with_argument(op, wide, "half_to_float", False)
        try:
            return run(op, wide, "cpu"), problem
        except (RuntimeError, NotImplementedError, IndexError, ValueError, TypeError) as error:
            problem = problem or error
    return None, problem


LOOSE = {torch.float16: (2e-3, 2e-3), torch.bfloat16: (1.6e-2, 1.6e-2), torch.float32: (2e-5, 2e-5), torch.float64: (1e-7, 1e-7), torch.complex32: (4e-3, 4e-3),
         torch.complex64: (2e-5, 2e-5)}  # fmt: skip


def is_buffer(want, have, results):
    """Of other sizes on the two devices, and empty on one or both: what an operator keeps for its own backward."""
    if not isinstance(want, torch.Tensor) or not isinstance(have, torch.Tensor) or want.shape == have.shape:
        return False
    return not want.numel() and not have.numel() or results > 1 and not (want.numel() and have.numel())


def difference(want, have):
    if len(want) != len(have):
        return f"{len(have)} results instead of {len(want)}"
    coarsest = max((LOOSE.get(t.dtype, (0, 0)) for t in (*want, *have) if isinstance(t, torch.Tensor)), default=(0, 0))
    for w, h in zip(want, have):
        if h is None and isinstance(w, torch.Tensor) and not w.numel():
            continue  # not asked for: CUDA leaves it undefined
        if is_buffer(w, h, len(want)):
            continue
        if isinstance(w, torch.Tensor) != isinstance(h, torch.Tensor):
            return f"{type(h).__name__} instead of {type(w).__name__}"
        if not isinstance(w, torch.Tensor):
            if w != h and w == w and not isinstance(w, torch.device):
                return f"{h!r} instead of {w!r}"
            continue
        if w.layout != h.layout:
            return f"{h.layout} instead of {w.layout}"
        if w.layout != torch.strided:
            if w.dtype == torch.complex32:  # cannot be made dense anywhere
                w, h = w.values() if w.layout != torch.sparse_coo else w._values(), h.values() if h.layout != torch.sparse_coo else h._values()
            else:
                w, h = w.to_dense(), h.to_dense()
        if w.shape != h.shape:
            return f"shape {tuple(h.shape)} instead of {tuple(w.shape)}"
        h = h.detach().cpu().resolve_conj().resolve_neg()
        try:
            kind = torch.complex128 if w.is_complex() or h.is_complex() else torch.float64 if w.is_floating_point() or h.is_floating_point() else None
            rtol, atol = coarsest
            w = w.detach().to(h.dtype)  # as the result rounds
            if kind:
                torch.testing.assert_close(h.to(kind), w.to(kind), rtol=rtol, atol=atol, equal_nan=True)
            elif not torch.equal(h, w):
                return f"{h.flatten()[:4].tolist()} instead of {w.flatten()[:4].tolist()}"
        except AssertionError as error:
            return " ".join(str(error).split())[:140]
    return None


def judge_call(name, op, call, dtype, outs_form, watch, random):
    """(kind, why)."""
    outs, functional = None, op
    if any(a.is_out for a in op._schema.arguments):
        try:
            functional = functional_of(name, op)
            outs = outs_like(op, [t for t in run(functional, call, "cuda:0") if isinstance(t, torch.Tensor)], outs_form)
        except Exception:
            return None, None
    elif op._schema.name.endswith("_") and (overlapping(call) or not fits_in_place(op, call)):
        return None, None
    watch.missing.clear()
    try:
        have = run(op, call, "cuda:0", outs)
    except Exception as error:
        return judge_refusal(error, reference(functional, call), watch)
    if watch.missing:
        return "not_computed", watch.missing[0]
    want, problem = reference(functional, call)
    if want is None:
        return "no_reference", first_line(problem)
    if random:
        for w, h in zip(want, have):
            if isinstance(w, torch.Tensor) and w.shape != h.shape:
                return "wrong", f"shape {tuple(h.shape)} instead of {tuple(w.shape)}"
        return "random", None
    what = difference(want, have[: len(want)])
    if what and is_undefined(functional, call, want):
        return None, None
    return ("wrong", what) if what else ("equal", None)


def judge_refusal(error, reference, watch):
    """An error on cuda:0: PyTorch's own, as on hardware, or one that only the rehearsal has."""
    text = first_line(error)
    want, problem = reference
    if is_of_the_device(error) or want is None or (problem is not None and first_line(problem) == text):
        return "refused", text
    if watch.raised_by_computing(error) or ("INTERNAL ASSERT" in text and "/cuda/" not in text and "ScalarType" not in text):
        return "wrong", text
    if type(error).__name__ == "NotImplementedError" or any(word in text for word in ABOUT_TYPES):
        return "refused", text
    return "refused_alone", text


# PyTorch's CUDA code says so of types that it has no kernel for.
ABOUT_TYPES = ("dtype", "type", "not implemented for", "not supported", "only supports", "complex", "Half", "bfloat16", "Float", "integer")  # fmt: skip


def fits_in_place(op, call):
    """Whether the result has the shape of the argument that is written to; else its values are nobody's."""
    try:
        own = getattr(getattr(torch.ops.aten, op._schema.name.removeprefix("aten::")[:-1]), op._schema.overload_name or "default")
        results = [t.shape for t in run(own, call, "cpu") if isinstance(t, torch.Tensor)]
    except Exception:
        return True
    written = [t.shape for t in tree_flatten(call[0][0])[0] if isinstance(t, torch.Tensor)]
    return results[: len(written)] == written


def is_of_the_device(error):
    """An error that stays, as on hardware: the process has to be started anew."""
    return type(error).__name__ == "AcceleratorError"


def is_undefined(op, call, want):
    """Whether the CPU's own results change with what lay in memory: a guessed call that nobody would make, or results that have no meaning in part."""
    for fill in (float("nan"), 1.0, 3e30):
        left = [torch.full((n,), fill) for n in (1, 2, 4, 8, 16, 32, 64, 128, 256, 1024, 4096, 16384, 65536) for _ in range(8)]
        del left
        again, _ = reference(op, call)
        if again is not None and difference(want, again):
            return True
    return False


def overlapping(call):
    return any(isinstance(t, torch.Tensor) and 0 in t.stride() and t.numel() > 1 for t in tree_flatten(call)[0])


def functional_of(name, op):
    own = [(a.name, str(a.type)) for a in op._schema.arguments if not a.is_out]
    packet = op._overloadpacket
    for other in packet.overloads():
        candidate = getattr(packet, other)
        if not any(a.is_out for a in candidate._schema.arguments) and [(a.name, str(a.type)) for a in candidate._schema.arguments] == own:
            return candidate
    raise LookupError(name)


def first_line(error):
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:160] if text else ''}"


def judge(name, gathered, watch):
    op = overload(name)
    calls = base_calls(name, op, gathered)
    counts, kinds, random = {}, {}, is_random(op)
    forms = ("exact", "strided", "empty") if any(a.is_out for a in op._schema.arguments) else (None,)
    for call, dtype in typed_calls(op, calls):
        for form in forms:
            try:
                kind, why = judge_call(name, op, call, dtype, form, watch, random)
            except Exception as error:  # of comparing
                kind, why = "unusable", first_line(error)
            if kind is None:
                continue
            counts[kind] = counts.get(kind, 0) + 1
            told = kinds.setdefault(kind, [])
            if why and len(told) < MOST_TOLD:
                told.append([f"{str(dtype).removeprefix('torch.')}{', out ' + form if form else ''}", why])
    return counts, kinds


def go_on(names, options):
    """With the rest, in a process whose device has no error."""
    if not names:
        return
    path = options.out + ".left"
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(names))
    os.execv(sys.executable, [sys.executable, __file__, "--out", options.out, "--calls", options.calls, "--operators", path])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--operators", help="file of overloads, one a line; without it all")
    parser.add_argument("--calls", help="what gather.py wrote")
    options = parser.parse_args()
    out = open(options.out, "a", encoding="utf-8")

    def write(**record):
        out.write(json.dumps(record) + "\n")
        out.flush()

    names = all_overloads()
    if options.list:
        for name in names:
            write(event="operator", op=name)
        return
    if options.operators:
        with open(options.operators, encoding="utf-8") as file:
            wanted = set(file.read().split())
        names = [n for n in names if n in wanted]
    with open(options.calls, "rb") as file:
        gathered = pickle.load(file)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.ones(1, device="cuda")  # brings the computing in
    watch = Watch()
    for name in names:
        write(event="begin", op=name)
        try:
            counts, kinds = judge(name, gathered, watch)
        except Exception as error:
            counts, kinds = {"unusable": 1}, {"unusable": [["", first_line(error)]]}
        write(event="end", op=name, counts=counts, kinds=kinds)
        if any("AcceleratorError" in why for _, why in kinds.get("refused", [])):
            go_on(names[names.index(name) + 1 :], options)
    write(event="done")


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
