"""The current device: of a thread that never chose one, and around a kernel's launch."""

import ast

import devices
from candidate import Candidate
from source import keyword, last_name

from kinds.at_use import directions


def candidates(failure):
    yield from in_threads(failure)
    if failure.finding.get("kind") == "wrong-current-device":
        yield from around(failure)


def in_threads(failure):
    """torch.cuda.set_device first thing in a function that a thread runs, where an operand came from there."""
    made_in = {
        frame.get("function", "").rsplit(".", 1)[-1]
        for operand in failure.operands
        for event in ("created", "moved")
        for frame in operand.stack(event)
    } | {frame.get("function", "").rsplit(".", 1)[-1] for frame in failure.stack}
    for source in failure.files():
        targets = set()
        for call in ast.walk(source.tree):
            if isinstance(call, ast.Call) and last_name(call.func) in ("Thread", "Process", "Timer"):
                given = keyword(call, "target")
                targets.add(last_name(given.value) if given else None)
            elif isinstance(call, ast.Call) and last_name(call.func) in ("submit", "map", "spawn", "apply_async") and call.args:
                targets.add(last_name(call.args[0]))
        for function in ast.walk(source.tree):
            if not isinstance(function, ast.FunctionDef) or function.name not in (targets | {"run"}) or function.name not in made_in:
                continue
            for device in dict.fromkeys(device for _, device, _ in directions(failure)):
                if not device.startswith("cuda:"):
                    continue
                for rank, (word, names_device) in enumerate(devices.ways(failure, source, function.body[0], device, most=2)):
                    text = f"torch.cuda.set_device({device[5:] if names_device else word})"
                    each = Candidate("set-device", f"{function.name}: {text}", 2.1 + 0.2 * rank, names_device=names_device)
                    yield each.before(source, function.body[0], text)


def around(failure):
    for site in failure.sites[:3]:
        source, statement = site.source, site.statement
        indent = source.indent(statement)
        if not isinstance(statement, (ast.Expr, ast.Assign, ast.Return)) or indent is None:
            continue
        for operand in failure.operands:
            nodes = failure.at(operand, site) or []
            if not nodes:
                continue
            text = f"{source.of(nodes[0])}.device"
            each = Candidate("device-guard", f"with torch.cuda.device({text})", 1.0 + 0.4 * site.index)
            each.insert(source, source.span(statement)[0], f"with torch.cuda.device({text}):{source.newline}{indent}    ")
            for line in range(statement.lineno + 1, statement.end_lineno + 1):
                each.insert(source, source.starts[line - 1], "    ")
            yield each
            break
