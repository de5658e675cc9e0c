"""Calls of PyTorch's operators to vary: what PyTorch's own operator database reaches, forward and backward, on the CPU.

Writes a file of {overload's name: [(args, kwargs), …]}; tensors are CPU tensors. Run without devtrace (run.py does).
"""

import argparse
import pickle
import random
import warnings

import numpy
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

SAMPLES = 4  # of an operator of the database and a type
CALLS = 3  # of an overload, unlike each other
LARGEST = 20_000  # elements of a tensor
PLAIN = (torch.Tensor, bool, int, float, complex, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format)


def kept(value):
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def form(args, kwargs):
    """By which calls are unlike each other: types, dimensions, and the other arguments."""
    leaves = tree_flatten((args, kwargs))[0]
    return tuple((str(v.dtype), v.dim(), v.layout) if isinstance(v, torch.Tensor) else repr(v)[:40] for v in leaves)


class Record(TorchDispatchMode):
    def __init__(self, calls):
        super().__init__()
        self.calls = calls

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        known = self.calls.setdefault(op.name(), {})
        leaves = tree_flatten((args, kwargs))[0]
        fits = isinstance(op, torch._ops.OpOverload) and all(type(v) in PLAIN for v in leaves)
        fits = fits and all(not isinstance(v, torch.Tensor) or (v.numel() <= LARGEST and v.layout == torch.strided and not v.is_nested) for v in leaves)
        if fits and len(known) < CALLS and (key := form(args, kwargs)) not in known:
            try:
                known[key] = tree_map(kept, args), tree_map(kept, dict(kwargs))
            except RuntimeError:
                pass  # a wrapper that cannot be copied
        return op(*args, **kwargs)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    calls = {}
    for op in op_db:
        both = set(op.supported_dtypes("cpu"))
        for dtype in [d for d in (torch.float32, torch.int64, torch.complex64, torch.bool) if d in both][:2]:
            wants_gradient = dtype.is_floating_point and op.supports_autograd
            for seed in (torch.manual_seed, numpy.random.seed, random.seed):
                seed(0)
            try:
                for i, sample in enumerate(op.sample_inputs("cpu", dtype, requires_grad=wants_gradient)):
                    if i == SAMPLES:
                        break
                    with Record(calls):
                        out = op(sample.input, *sample.args, **sample.kwargs)
                        outs = [o for o in tree_flatten(sample.output_process_fn_grad(out))[0] if isinstance(o, torch.Tensor) and o.requires_grad]
                        if wants_gradient and outs:
                            torch.autograd.grad(outs, [t for t in tree_flatten((sample.input, sample.args, sample.kwargs))[0] if isinstance(t, torch.Tensor) and t.requires_grad],
                                                [torch.linspace(0.5, 1.5, max(o.numel(), 1))[: o.numel()].reshape(o.shape).to(o.dtype) for o in outs], allow_unused=True)  # fmt: skip
            except Exception:
                pass  # a sample that needs what this machine lacks, or refuses; other samples stand
    with open(options.out, "wb") as file:
        pickle.dump({name: list(of.values()) for name, of in calls.items() if of}, file)


if __name__ == "__main__":
    main()
