"""PyTorch's own tests on the CPU, as far as its wheel brings them (torch/testing/_internal), in parts that take seconds.

    pytorch_suites.py operators 3/20        each operator of its database: the first samples, forward and backward
    pytorch_suites.py modules 1/4           each module of its database
    pytorch_suites.py optimizers 1/1        each optimizer, some steps

Prints what came out, rounded, so that two runs can be compared.
"""

import sys
import warnings
from itertools import islice

warnings.simplefilter("ignore")

import torch  # noqa: E402

SAMPLES = 2
torch.set_num_threads(1)


def part_of(rows: list, part: str) -> list:
    number, of = map(int, part.split("/"))
    return rows[number - 1 :: of]


def digest(result) -> list:
    """Shape and sum of each tensor in it; what an uninitialised one holds is nobody's answer."""
    tensors = [leaf for leaf in torch.utils._pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
    return [(tuple(leaf.shape), f"{leaf.detach().to_dense().double().nan_to_num().sum().item():.3g}" if leaf.dtype.is_floating_point else "") for leaf in tensors]


def attempt(name: str, action) -> None:
    torch.manual_seed(0)
    try:
        print(name, *action(), flush=True)
    except Exception as error:  # not every sample can be run by itself: the same error with and without is no difference
        print(name, type(error).__name__, str(error).splitlines()[:1], flush=True)


def backward(result) -> None:
    leaves = [leaf for leaf in torch.utils._pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    if leaves:
        sum(leaf.abs().sum() for leaf in leaves).backward()


def operators(part: str) -> None:
    from torch.testing._internal.common_methods_invocations import op_db

    for row in part_of(op_db, part):
        def run(row=row):
            for sample in islice(row.sample_inputs("cpu", torch.float32, requires_grad=row.supports_autograd), SAMPLES):
                result = row(sample.input, *sample.args, **sample.kwargs)
                backward(result)
                yield [leaf[0] for leaf in digest(result)] if "empty" in row.name else digest(result)

        attempt(row.formatted_name, run)


def modules(part: str) -> None:
    from torch.testing._internal.common_modules import module_db

    for row in part_of(module_db, part):
        def run(row=row):
            inputs = row.module_inputs_func(row, device="cpu", dtype=torch.float32, requires_grad=False, training=True)
            for one in islice(inputs, SAMPLES):
                module = row.module_cls(*one.constructor_input.args, **one.constructor_input.kwargs)
                result = module(*one.forward_input.args, **one.forward_input.kwargs)
                backward(result)
                yield digest(result)

        attempt(row.formatted_name, run)


def optimizers(part: str) -> None:
    from torch.testing._internal.common_optimizers import optim_db

    for row in part_of(optim_db, part):
        for one in row.optim_inputs_func(device="cpu"):
            def run(row=row, one=one):
                weight = torch.nn.Parameter(torch.randn(4, 4))
                optimizer = row.optim_cls([weight], **one.kwargs)

                def closure():
                    optimizer.zero_grad()
                    loss = (weight**2).sum()
                    loss.backward()
                    return loss

                for _ in range(3):
                    optimizer.step(closure)
                yield digest(weight)

            attempt(f"{row.optim_cls.__name__} {one.desc}", run)


SUITES = {"operators": operators, "modules": modules, "optimizers": optimizers}

if __name__ == "__main__":
    kind, *names = sys.argv[1:]
    for name in names:
        SUITES[kind](name)
