"""Operators of PyTorch's own database with one operand on the CPU and the rest on cuda:0: what PyTorch answered, and what devtrace found.

    operators.py OUT [--seconds 100] [--every 1] [--last NAME]

Writes JSON Lines: {"torch": version}, then of each operator {"operator": "add_Tensor", "first": answer, "last": answer}, an
answer being {"refused": first line of the error, or null, "findings": [[operation, devices]]}. The first
sample of each operator that has two tensors, its first and its last tensor moved. What takes longer than --seconds in all is left out, in the
database's order, so that two runs have the same beginning; so is what stands there behind --last.
"""

import argparse
import ctypes
import json
import random
import re
import time
import warnings

import numpy
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_unflatten

library = ctypes.CDLL(None)
TRACED = hasattr(library, "devtrace_finding_count")
if TRACED:
    library.devtrace_finding_count.restype = ctypes.c_uint64
    library.devtrace_log_path.restype = ctypes.c_char_p


class Findings:
    """What devtrace has found in this process since the last question."""

    def __init__(self):
        self.log, self.seen = None, 0

    def new(self) -> list:
        if not TRACED or library.devtrace_finding_count() == self.seen:
            return []
        self.seen = library.devtrace_finding_count()
        self.log = self.log or open(library.devtrace_log_path().decode(), encoding="utf-8")
        records = [json.loads(line) for line in self.log]
        return [[one["operation"], sorted(one["devices"])] for one in records if one["record"] == "finding"]


def seed():
    torch.manual_seed(0), numpy.random.seed(0), random.seed(0)


def sample_of(op):
    """The leaves of the first sample with two tensors, their structure, and which are tensors; None where there is none."""
    dtypes = op.supported_dtypes("cpu") & op.supported_dtypes("cuda")
    if not dtypes:
        return None
    seed()
    for sample in op.sample_inputs("cpu", torch.float32 if torch.float32 in dtypes else sorted(dtypes, key=str)[0], requires_grad=False):
        leaves, structure = tree_flatten((sample.input, sample.args, sample.kwargs))
        tensors = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        if len(tensors) >= 2:
            return leaves, structure, tensors
    return None


def answer(op, leaves, structure, tensors, on_cpu):
    placed = [leaf.detach().clone().to("cpu" if i == on_cpu else "cuda:0") if i in tensors else leaf for i, leaf in enumerate(leaves)]
    value, args, kwargs = tree_unflatten(placed, structure)
    seed()
    try:
        op(value, *args, **kwargs)
        torch.cuda.synchronize()
    except Exception as error:
        # Addresses and the numbers of arguments' types differ from process to process; the sentence does not.
        return re.sub(r"0x[0-9a-f]+", "0x…", f"{type(error).__name__}: {error}".splitlines()[0])[:300]
    return None


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("out")
    arguments.add_argument("--seconds", type=float, default=100)
    arguments.add_argument("--every", type=int, default=1)
    arguments.add_argument("--last")
    options = arguments.parse_args()
    warnings.simplefilter("ignore")
    begin, findings, rows = time.monotonic(), Findings(), [{"torch": torch.__version__}]
    for op in op_db[:: options.every]:
        if time.monotonic() - begin > options.seconds:
            break
        try:
            sample = sample_of(op)
        except Exception:  # of a sample that this machine cannot make there is nothing to compare
            continue
        if sample is None or answer(op, *sample, on_cpu=None) is not None:
            continue
        findings.new()
        row = {"operator": op.formatted_name}
        for which, position in (("first", sample[2][0]), ("last", sample[2][-1])):
            refused = answer(op, *sample, on_cpu=position)
            row[which] = {"refused": refused, "findings": findings.new()}
        rows.append(row)
        if op.formatted_name == options.last:
            break
    with open(options.out, "w", encoding="utf-8") as out:
        out.writelines(json.dumps(row) + "\n" for row in rows)


main()
