"""A cache whose key says nothing of the device answers for another one."""

import ast

import devices
from candidate import Candidate
from source import dotted


def candidates(failure):
    running = functions(failure)
    for source, function in running:
        for statement in ast.walk(function):
            if isinstance(statement, ast.If):
                yield from until_elsewhere(failure, source, statement)
            elif isinstance(statement, ast.Assign):
                yield from wider_key(source, function, statement, 1.4)
    for source in failure.files():
        for function in ast.walk(source.tree):
            if isinstance(function, ast.FunctionDef) and (source, function) not in running:
                for statement in ast.walk(function):
                    if isinstance(statement, ast.Assign):
                        yield from wider_key(source, function, statement, 2.5)


def functions(failure):
    found = []
    stacks = [failure.stack] + [each.stack("created") for each in failure.operands]
    for stack in stacks:
        for frame in stack:
            source, statement = failure.program.place(frame) or (None, None)
            function = source and source.function(statement)
            if function is not None and (source, function) not in found:
                found.append((source, function))
    return found


def until_elsewhere(failure, source, statement):
    """`if self.mask is None:` → also when it lies on another device than what it is used with."""
    targets = {dotted(each) for node in ast.walk(statement) if isinstance(node, ast.Assign) for each in node.targets}
    tested = {dotted(node) for node in ast.walk(statement.test) if isinstance(node, (ast.Name, ast.Attribute))}
    names = [name for operand in failure.operands for name in operand.names.values()]
    for held in sorted(filter(None, targets)):
        last = held.split(".")[-1]
        if held not in tested and not any(last == name.split(".")[-1].split("[")[0] for name in names):
            continue
        ways = devices.of_arguments(source, statement.body[0])[:1]
        for way in ways:
            text = source.of(statement.test)
            if "is None" not in text and "hasattr" not in text and held not in tested:
                continue
            each = Candidate("cache-key", f"{held} is made anew for {way}", 2.6)
            yield each.insert(source, source.span(statement.test)[1], f" or {held}.device != {way}")


def wider_key(source, function, statement, prior):
    """`key = x.shape` before `if key not in cache`: the device belongs to the key."""
    target = statement.targets[0]
    if not isinstance(target, ast.Name):
        return
    looked_up = any(looks_up(node, target.id) for node in ast.walk(function))
    if not looked_up:
        return
    arguments = [each.arg for each in function.args.args if each.arg not in ("self", "cls")]
    used = [name for name in arguments if any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(statement.value))]
    for name in used[:1]:
        each = Candidate("cache-key", f"the device belongs to {target.id}", prior)
        yield each.replace(source, statement.value, f"({source.of(statement.value)}, {name}.device)")


def looks_up(node, key):
    """`key in cache`, `cache.get(key)`."""
    if isinstance(node, ast.Compare):
        return isinstance(node.ops[0], (ast.In, ast.NotIn)) and dotted(node.left) == key
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    return node.func.attr in ("get", "setdefault") and bool(node.args) and dotted(node.args[0]) == key
