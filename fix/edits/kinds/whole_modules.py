"""Move a module that stayed behind, or went elsewhere: where it is made, beside the move of another, at its call."""

import ast

import devices
from candidate import Candidate
from source import dotted, last_name, parsed, same

from kinds.at_use import directions

TO_THE_CPU = 4.0  # a model is hardly ever meant to leave the GPU


def candidates(failure):
    for source_device, device, _ in directions(failure):
        for operand in failure.on(source_device) + failure.sources_on(source_device):
            if not operand.is_state or operand.raw.get("hook"):
                continue
            for site in failure.sites:
                for each in (*made(failure, operand, site, device), *beside(operand, site), *at_call(failure, operand, site, device)):
                    if each is not None and each.wanted == "cpu":
                        each.prior += TO_THE_CPU
                    yield each


def owners(operand, site):
    """`self.encoder.lstm`, `self.encoder` of self.encoder.lstm.weight in that frame: the longest first, no bare self."""
    node = parsed(operand.names.get(site.index) or "")
    found = []
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
        if not (isinstance(node, ast.Name) and node.id in ("self", "cls")):
            found.append(node)
    return found


def made(failure, operand, site, device):
    function = site.source.function(site.statement)
    for depth, owner in enumerate(reversed(owners(operand, site))):
        text = ast.unparse(owner)
        in_self = text.startswith("self.")
        scope = site.source.class_of(site.statement) if in_self else (function or site.source.tree)
        for statement in ast.walk(scope or site.source.tree):
            if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Call):
                continue
            if not any(dotted(each) == text for each in statement.targets) or ".to(" in site.source.of(statement.value):
                continue
            for rank, (way, names_device) in enumerate(devices.ways(failure, site.source, statement, device)):
                each = Candidate("move-module", f"{text} is made on {way}", 2.6 + 0.5 * depth + 0.6 * rank, names_device=names_device, says=way, wanted=device)
                yield each.replace(site.source, statement.value, f"{site.source.of(statement.value)}.to({way})")


def beside(operand, site):
    """After `model.to(device)`: the same for the one that was left out."""
    names = [ast.unparse(each) for each in reversed(owners(operand, site))]
    function = site.source.function(site.statement)
    for statement in ast.walk(function or site.source.tree):
        call = getattr(statement, "value", None)
        if not isinstance(statement, (ast.Expr, ast.Assign)) or not isinstance(call, ast.Call):
            continue
        if last_name(call.func) not in ("to", "cuda") or not isinstance(call.func, ast.Attribute):
            continue
        if site.source.function(statement) is not function or statement.lineno >= site.statement.lineno:
            continue
        receiver = dotted(call.func.value)
        for name in names if receiver else []:
            if name == receiver:
                continue
            arguments = ", ".join(site.source.of(each) for each in call.args)
            prior = 2.8 if name.startswith(f"{receiver}.") else 3.4
            each = Candidate("move-module", f"{name} is moved where {receiver} is", prior)
            yield each.after(site.source, statement, f"{name}.{call.func.attr}({arguments})")
            break


def at_call(failure, operand, site, device):
    """`self.encoder.to(x.device)(x)`: .to() of a module gives the module."""
    ways = devices.of_operand(failure, site, device) or devices.in_scope(site.source, site.statement)
    if not ways:
        return
    for owner in owners(operand, site):
        for call in site.calls():
            if same(call.func, owner):
                text = site.source.of(call.func)
                each = Candidate("move-module", f"{text} follows its input", 4.0, wanted=device)
                yield each.replace(site.source, call.func, f"{text}.to({ways[0]})")
