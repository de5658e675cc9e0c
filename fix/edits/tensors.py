"""Which names of a function stand for tensors, as far as its text tells."""

import ast

from source import dotted, last_name
from torch_functions import OF_SIZES

# What tensors have, and hardly anything else that functions are given. Not what modules have as well: to, cuda, float.
OF_TENSORS = {
    *("shape", "size", "dim", "ndim", "numel", "dtype", "T", "mT", "grad", "requires_grad", "is_cuda", "item", "tolist"),
    *("view", "view_as", "reshape", "flatten", "unsqueeze", "squeeze", "permute", "transpose", "expand", "expand_as", "repeat", "chunk", "split"),
    *("contiguous", "detach", "clone", "long", "int", "bool", "type_as", "masked_fill", "gather", "scatter", "index_select", "where"),
    *("sum", "mean", "max", "min", "std", "var", "abs", "exp", "log", "sqrt", "square", "pow", "clamp", "softmax", "sigmoid", "argmax", "cumsum"),
    *("new_zeros", "new_ones", "new_full", "new_empty", "new_tensor", "backward"),
}
ALSO_MODULES = {"to", "cuda", "cpu", "device", "float", "half", "double", "bfloat16"}
NUMBERS = {"rank", "local_rank", "global_rank", "world_size", "gpu", "device_id", "index", "step", "epoch"}
TORCH = {"torch", "F", "nn"}


def likely(source, function, name):
    """2: it is used as a tensor; 1: nothing tells; 0: it is used as something else."""
    if name in NUMBERS:
        return 0
    said = set()
    for argument in ast.walk(function.args):
        if isinstance(argument, ast.arg) and argument.arg == name and argument.annotation is not None:
            said.add("Tensor" in ast.unparse(argument.annotation))
    said |= likely_in(source, function, name)
    return 1 if len(said) != 1 else 2 if True in said else 0


def is_list(source, function, name):
    """Its elements are used as tensors, one after the other."""
    for node in ast.walk(function):
        if not isinstance(node, (ast.For, ast.comprehension)) or dotted(node.iter) != name or not isinstance(node.target, ast.Name):
            continue
        inside = node if isinstance(node, ast.For) else source.parents[node]
        if likely_in(source, inside, node.target.id) == {True}:
            return True
    return False


def likely_in(source, scope, name):
    loads = [node for node in ast.walk(scope) if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)]
    return {used_as_tensor(source.parents.get(node), node) for node in loads} - {None}


def used_as_tensor(parent, node):
    """None: that use says nothing."""
    if isinstance(parent, ast.Attribute):
        return None if parent.attr in ALSO_MODULES else parent.attr in OF_TENSORS
    if isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.MatMult):
        return True
    if isinstance(parent, ast.Subscript) and parent.value is node:
        return of_subscript(parent.slice)
    if isinstance(parent, ast.Call):
        if parent.func is node or dotted(parent.func) in ("range", "torch.tensor", "torch.from_numpy"):
            return False
        if (dotted(parent.func) or "").split(".")[0] in TORCH:
            return last_name(parent.func) not in OF_SIZES
    return None


def of_subscript(index):
    if isinstance(index, ast.Tuple):
        return True
    return False if isinstance(index, ast.Constant) and isinstance(index.value, str) else None
