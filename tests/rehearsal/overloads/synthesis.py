"""Arguments for an overload that nothing of PyTorch's database reaches, made of its schema: several guesses."""

import torch

VALUES = {
    "int": 1, "SymInt": 1, "float": 0.5, "bool": True, "Scalar": 1, "number": 1, "str": None, "Dimname": None,
}  # fmt: skip

WEIGHT, NORMS = torch.linspace(0.1, 0.9, 16).view(4, 4), torch.linspace(0.5, 2.0, 4).view(4, 1)

# What no guess would hit.
CALLS = {
    "aten::_convert_indices_from_csr_to_coo": [((torch.tensor([0, 2, 3]), torch.tensor([1, 0, 1])), {}), ((torch.tensor([0, 2, 3]), torch.tensor([1, 0, 1])), {"transpose": True})],
    "aten::_convert_indices_from_coo_to_csr": [((torch.tensor([0, 0, 1, 3]), 4), {})],
    # With norms of another shape part of the result is what lay in memory.
    "aten::_weight_norm_interface": [((WEIGHT, NORMS), {}), ((WEIGHT, NORMS.view(1, 4), 1), {})],
    "aten::_weight_norm_interface_backward": [((WEIGHT + 1, WEIGHT, NORMS, NORMS + 1, 0), {}), ((WEIGHT + 1, WEIGHT, NORMS.view(1, 4), NORMS.view(1, 4) + 1, 1), {})],
}  # fmt: skip


def guess(argument, size, dims):
    """One argument; raises KeyError for types that nothing is known of."""
    kind = str(argument.type)
    tensor = lambda: torch.linspace(0.1, 0.9, size**dims).view([size] * dims)  # noqa: E731
    if argument.has_default_value() and not kind.startswith("Tensor"):
        return argument.default_value
    if kind == "Tensor":
        return torch.arange(size) if any(word in argument.name for word in ("index", "indices", "target")) else tensor()
    if kind == "List[Tensor]":
        return [tensor(), tensor() + 1]
    if kind.startswith("Optional"):
        return None
    if kind in ("List[int]", "List[SymInt]"):
        return [1, 1]
    if kind in ("List[number]", "List[Scalar]", "List[float]"):
        return [1.5, 2.5]
    if kind == "List[bool]":
        return [True, True, True]
    value = VALUES[kind]
    if value is None:
        raise KeyError(kind)
    return value


def guesses(schema):
    """Calls worth a try, as [(args, kwargs)]."""
    made = []
    for size, dims in ((4, 2), (4, 1), (4, 4), (4, 3)):
        try:
            args = [guess(a, size, dims) for a in schema.arguments if not a.kwarg_only]
            kwargs = {a.name: guess(a, size, dims) for a in schema.arguments if a.kwarg_only and not a.is_out and not a.has_default_value()}
        except KeyError:
            return []
        made.append((tuple(args), kwargs))
    return made
