"""Runs operators of PyTorch's own operator database on cuda:0 and on the CPU and compares the values.

Meant to run under `devtrace rehearse` (run.py starts it). Writes JSON lines:
  {"event":"begin","op":NAME} … {"event":"end","op":NAME,"modes":{MODE:{…counts…,"faults":[…]}}}
                               an operator without its end crashed or hung in this process
  {"event":"done"}
"""

import argparse
import json
import os
import random
import sys
import warnings

import numpy
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_map

MODES = ("float32", "bfloat16", "backward")
# Their values are whatever lay in memory: only shape and type are compared.
WITHOUT_VALUES = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}
# PyTorch's CUDA kernels refuse these on hardware, too.
REFUSED_ON_HARDWARE = (
    "is not supported on CUDA", "expected tensor_indices_or_sections to be on cpu", "Could not run 'aten::_sparse_mm_reduce_impl'",
)  # fmt: skip
MOST_FAULTS = 3  # told of an operator and mode


def operator_name(op) -> str:
    return op.formatted_name


def seed():
    torch.manual_seed(0)
    numpy.random.seed(0)
    random.seed(0)


def dtype_of(op, mode):
    """None when the operator does not take it on both devices."""
    both = set(op.supported_dtypes("cpu")) & set(op.supported_dtypes("cuda"))
    if mode == "bfloat16":
        return torch.bfloat16 if torch.bfloat16 in both else None
    if mode == "backward":
        if not op.supports_autograd or torch.float32 not in set(op.supported_backward_dtypes("cpu")) & set(op.supported_backward_dtypes("cuda")):
            return None
        return torch.float32 if torch.float32 in both else None
    return torch.float32 if torch.float32 in both else next(iter(sorted(both, key=str)), None)


def placed(value, device):
    """A copy of a sample's part on a device; gradients are wanted where the sample wants them."""

    def copy(leaf):
        if isinstance(leaf, torch.Tensor):
            return leaf.detach().clone().to(device).requires_grad_(leaf.requires_grad)
        if isinstance(leaf, torch.device) or (isinstance(leaf, str) and leaf == "cpu"):
            return torch.device(device)
        return leaf

    return tree_map(copy, value)


def gradients(op, sample, args, kwargs, out):
    out = sample.output_process_fn_grad(out)
    outs = [o for o in tree_flatten(out)[0] if isinstance(o, torch.Tensor) and o.requires_grad]
    wanted = [a for a in tree_flatten((args, kwargs))[0] if isinstance(a, torch.Tensor) and a.requires_grad]
    if not outs or not wanted:
        return None
    # Not all ones: a gradient that is only right when summed would pass.
    weights = [torch.linspace(0.5, 1.5, max(o.numel(), 1))[: o.numel()].reshape(o.shape).to(o.device, o.dtype) for o in outs]
    return torch.autograd.grad(outs, wanted, weights, allow_unused=True)


def run(op, sample, device, mode):
    """(values, None) or (None, the exception)."""
    args = placed((sample.input, *sample.args), device)
    kwargs = placed(sample.kwargs, device)
    seed()
    try:
        out = op(*args, **kwargs)
        if mode == "backward":
            out = gradients(op, sample, args, kwargs, out)
        torch.cuda.synchronize()
        return out, None
    except Exception as error:
        return None, error


def difference(op, sample, expected, actual):
    """None, or in what they differ."""
    own_device = "device" in sample.kwargs  # then the sample says where the result is
    tensors = any(isinstance(leaf, torch.Tensor) for leaf in tree_flatten((sample.input, sample.args))[0])
    want, want_structure = tree_flatten(expected)
    have, have_structure = tree_flatten(actual)
    if len(want) != len(have):
        return f"{len(have)} results instead of {len(want)}"
    for w, h in zip(want, have):
        if isinstance(w, torch.Tensor) and isinstance(h, torch.Tensor) and op.name in WITHOUT_VALUES:
            if (w.shape, w.dtype) != (h.shape, h.dtype):
                return f"{h.dtype} {tuple(h.shape)} instead of {w.dtype} {tuple(w.shape)}"
        elif isinstance(w, torch.Tensor) != isinstance(h, torch.Tensor):
            return f"{type(h).__name__} instead of {type(w).__name__}"
        elif isinstance(w, torch.Tensor):
            if tensors and not own_device and h.device.type != "cuda":
                return f"on {h.device}"
            try:
                # The device is the sample's own wish; CUDA keeps the statistics of a bfloat16 normalisation in float32.
                torch.testing.assert_close(h.detach().cpu(), w.detach().cpu(), equal_nan=True, check_dtype=False)
            except AssertionError as error:
                return " ".join(str(error).split())[:160]
        elif isinstance(w, torch.device):
            pass  # the result of asking for it
        elif w != h and not (w != w and h != h):
            return f"{h!r} instead of {w!r}"
    return None


def first_line(error) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:200] if text else ''}"


def judge(op, mode, most):
    counts = {"samples": 0, "equal": 0, "cpu_refuses": 0, "cuda_refuses": 0, "faults": []}
    dtype = dtype_of(op, mode)
    if dtype is None:
        return None
    seed()
    # A database sample may itself need what this machine lacks.
    for sample in op.sample_inputs("cpu", dtype, requires_grad=mode == "backward"):
        if most and counts["samples"] >= most:
            break
        expected, refusal = run(op, sample, "cpu", mode)
        if refusal is not None:
            counts["cpu_refuses"] += 1
            continue
        actual, error = run(op, sample, "cuda:0", mode)
        if error is not None and any(text in str(error) for text in REFUSED_ON_HARDWARE):
            counts["cuda_refuses"] += 1
            continue
        counts["samples"] += 1
        what = first_line(error) if error is not None else difference(op, sample, expected, actual)
        if what is None:
            counts["equal"] += 1
        elif len(counts["faults"]) < MOST_FAULTS:
            counts["faults"].append(what)
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True)
    parser.add_argument("--list", action="store_true", help="write the names of the operators, and stop")
    parser.add_argument("--operators", help="file of operator names, one a line; without it all")
    parser.add_argument("--samples", type=int, default=0, help="samples of an operator, 0 for all")
    parser.add_argument("--modes", nargs="*", default=MODES)
    options = parser.parse_args()
    out = open(options.out, "a", encoding="utf-8")

    def write(**record):
        out.write(json.dumps(record) + "\n")
        out.flush()

    if options.list:
        for op in op_db:
            write(event="operator", op=operator_name(op))
        return
    wanted = None
    if options.operators:
        with open(options.operators, encoding="utf-8") as file:
            wanted = set(file.read().split())
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for op in op_db:
        if wanted is not None and operator_name(op) not in wanted:
            continue
        write(event="begin", op=operator_name(op))
        modes = {}
        for mode in options.modes:
            try:
                verdict = judge(op, mode, options.samples)
            except Exception as error:  # the database could not make its samples
                verdict = {"samples": 0, "equal": 0, "cpu_refuses": 0, "cuda_refuses": 0, "faults": [], "unusable": first_line(error)}
            if verdict is not None:
                modes[mode] = verdict
        write(event="end", op=operator_name(op), modes=modes)
    write(event="done")


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # what libraries do while they are torn down is not what is tested
