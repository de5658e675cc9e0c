"""A partial, lambda or bound method made in __init__ holds that very module: a replica or a copy calls the original."""

import ast

from candidate import Candidate
from source import dotted, last_name

from kinds.registration import assigned


def candidates(failure):
    for source in failure.files():
        held = {}
        for statement in ast.walk(source.tree):
            name = assigned(statement)
            if name is not None:
                held[name, source.class_of(statement)] = statement.value
        for call in ast.walk(source.tree):
            if not isinstance(call, ast.Call):
                continue
            function = call.func
            if not isinstance(function, ast.Attribute) or dotted(function.value) != "self":
                continue
            value = held.get((function.attr, source.class_of(call)))
            text = unbound(source, value, call) if value is not None else None
            if text:
                prior = 1.0 if any("replica" in str(each.raw).lower() for each in failure.operands) or parallel(failure) else 3.0
                each = Candidate("call-through-self", f"self.{function.attr}: called through self", prior)
                yield each.replace(source, call, text)


def parallel(failure):
    return any("parallel_apply" in frame.get("file", "") for frame in failure.stack)


def unbound(source, value, call):
    """The call with what the holder was made from; None where it holds nothing of self."""
    given = [source.of(each) for each in call.args] + [source.of(each) for each in call.keywords]
    if isinstance(value, ast.Attribute) and dotted(value.value) == "self":
        return f"self.{value.attr}({', '.join(given)})"
    if isinstance(value, ast.Call) and last_name(value.func) == "partial" and value.args:
        inner = value.args[0]
        if (dotted(inner) or "").startswith("self."):
            before = [source.of(each) for each in value.args[1:]]
            after = [source.of(each) for each in value.keywords if each.arg not in {one.arg for one in call.keywords}]
            return f"{source.of(inner)}({', '.join(before + given + after)})"
    if isinstance(value, ast.Lambda) and any(isinstance(each, ast.Name) and each.id == "self" for each in ast.walk(value.body)):
        names = [each.arg for each in value.args.args]
        if len(names) == len(call.args) and not call.keywords:
            return inlined(source, value.body, dict(zip(names, call.args)))
    return None


def inlined(source, body, by):
    start, end = source.span(body)
    edits = []
    for node in ast.walk(body):
        if isinstance(node, ast.Name) and node.id in by:
            edits.append((*source.span(node), source.of(by[node.id])))
    data = source.bytes
    for first, last, text in sorted(edits, reverse=True):
        data = data[:first] + text.encode() + data[last:]
        end += len(text.encode()) - (last - first)
    return f"({data[start:end].decode()})"
