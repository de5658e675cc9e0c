"""Where nothing is known by name: each expression of the failing line that could be a tensor, moved in turn."""

import ast

from candidate import Candidate, grouped
from program import spared
from source import dotted, head

from kinds.at_use import directions, says

PRIOR = 6  # behind all that speaks of a known operand


def candidates(failure):
    for order, site in enumerate(failure.sites[:3]):
        hooked = [node for operand in failure.operands if not operand.movable for node in failure.at(operand, site)]
        nodes = [node for node in head(site.statement) if is_operand(site.source, node) and node not in hooked]
        for _, device, cost in directions(failure):
            text, names_device = says(failure, site, device)[0]
            for place, node in enumerate(nodes[:6]):
                written = site.source.of(node)
                if text.startswith(f"{written}."):
                    continue
                each = Candidate("move-at-use", f"move {written} to {text}", PRIOR + order + cost + 0.1 * place, names_device=names_device)
                yield each.replace(site.source, node, f"{grouped(site.source, node)}.to({text})")


def is_operand(source, node):
    if not isinstance(node, (ast.Name, ast.Attribute, ast.Subscript, ast.Call, ast.BinOp)) or spared(source, node):
        return False
    if not isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
        return False
    if (dotted(node) or "").split(".")[0] in ("torch", "nn", "F", "self", "cls") and isinstance(node, (ast.Name,)):
        return False
    parent = source.parents.get(node)
    if isinstance(parent, ast.Call):
        return node in parent.args
    if isinstance(parent, ast.keyword):
        return not isinstance(node, ast.Name) or node.id not in ("True", "False")
    return isinstance(parent, (ast.BinOp, ast.Compare, ast.Tuple, ast.List)) or (isinstance(parent, ast.Subscript) and parent.slice is node)
