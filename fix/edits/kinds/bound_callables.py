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
            prior = 1.0 if any("replica" in str(each.raw).lower() for each in failure.operands) or parallel(failure) else 3.0
            each = Candidate("call-through-self", f"self.{function.attr}: called through self", prior)
            if text:
                yield each.replace(source, call, text)
            elif value is not None and (functions := closures(source, value)):
                yield given_self(source, each, functions, function.attr)


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


def closures(source, value):
    """The lambdas and functions, made in the same method and reading its self, of which the value is one; else nothing."""
    if isinstance(value, ast.IfExp):
        branches = [closures(source, each) for each in (value.body, value.orelse)]
        return branches[0] + branches[1] if all(branches) else []
    found = [value]
    if isinstance(value, ast.Name):
        nodes = list(ast.walk(source.function(value) or source.tree))
        found = [each for each in nodes if isinstance(each, ast.FunctionDef) and each.name == value.id]
        found += [each.value for each in nodes if isinstance(each, ast.Assign) and [dotted(target) for target in each.targets] == [value.id]]
    return found if all(reads_self(each) for each in found) else []


def reads_self(function):
    if not isinstance(function, (ast.Lambda, ast.FunctionDef)) or any(each.arg == "self" for each in ast.walk(function.args) if isinstance(each, ast.arg)):
        return False
    return any(isinstance(each, ast.Name) and each.id == "self" for each in ast.walk(function))


def given_self(source, candidate, functions, attribute):
    """self is an argument of all of them, and given to them where they are called: in a replica, the replica."""
    for function in functions:
        start, end = source.span(function)
        text = source.bytes[start:end]
        empty = not ast.dump(function.args).count("arg(")
        opened = start + (len(b"lambda") if isinstance(function, ast.Lambda) else text.index(b"(") + 1)
        before = " self" if isinstance(function, ast.Lambda) else "self"
        candidate.insert(source, opened, before + ("" if empty else "," if isinstance(function, ast.Lambda) else ", "))
    owner = source.class_of(functions[0])
    for call in ast.walk(owner or source.tree):
        if isinstance(call, ast.Call) and dotted(call.func) == f"self.{attribute}":
            after = source.span(call.func)[1] + source.bytes[source.span(call.func)[1] :].index(b"(") + 1
            candidate.insert(source, after, "self, " if call.args or call.keywords else "self")
    return candidate


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
