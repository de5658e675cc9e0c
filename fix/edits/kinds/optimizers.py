"""An optimizer's state lies where its parameters were when it was made or loaded."""

import ast

from candidate import Candidate
from source import dotted, last_name


def candidates(failure):
    if not any("/torch/optim/" in frame.get("file", "") or frame.get("function", "").endswith("step") for frame in failure.stack):
        return
    for source in failure.files():
        for scope in [source.tree, *(node for node in ast.walk(source.tree) if isinstance(node, ast.FunctionDef))]:
            statements = [node for node in scope.body if isinstance(node, (ast.Expr, ast.Assign))]
            made = [node for node in statements if makes_optimizer(node)]
            loads = [node for node in statements if called(node) == "load_state_dict" and "opt" in (receiver(node) or "").lower()]
            moves = [node for node in statements if called(node) in ("to", "cuda")]
            for move in moves:
                for first in made[:1]:
                    if first.lineno < move.lineno:
                        yield earlier(source, first, move)
                for load in loads:
                    if load.lineno < move.lineno:
                        yield earlier(source, load, move)
            for move in moves:
                for name in optimizers_at(source, scope, move):
                    each = Candidate("optimizer-state", f"{name} casts its state to its parameters' devices once more", 1.1)
                    yield each.after(source, move, f"{name}.load_state_dict({name}.state_dict())")


def optimizers_at(source, scope, statement):
    """What optimizers are called there: made in that function before, an argument, or an attribute of its class."""
    found = []
    if isinstance(scope, ast.FunctionDef):
        found += [each.arg for each in scope.args.args if each.arg.lower().startswith("opt")]
    class_ = source.class_of(scope) if isinstance(scope, ast.FunctionDef) else None
    for node in ast.walk(class_ or scope):
        if not makes_optimizer(node):
            continue
        here = source.function(node) is (scope if isinstance(scope, ast.FunctionDef) else None)
        for name in filter(None, map(dotted, node.targets)):
            if (here and node.lineno < statement.lineno) or (not here and name.startswith("self.")):
                found.append(name)
    return list(dict.fromkeys(found))


def earlier(source, before, statement):
    """The move in front of the statement that looks at the parameters."""
    text = source.of(statement)
    each = Candidate("optimizer-state", f"{text} before the optimizer looks at the parameters", 1.0).before(source, before, text)
    if each is None or source.indent(statement) is None:
        return None
    start, end = source.starts[statement.lineno - 1], source.starts[statement.end_lineno]
    each.edits.append((source, start, end, ""))
    return each


def makes_optimizer(statement):
    call = getattr(statement, "value", None)
    if not isinstance(statement, ast.Assign) or not isinstance(call, ast.Call):
        return False
    return any(isinstance(node, ast.Call) and last_name(node.func) == "parameters" for node in ast.walk(call))


def called(statement):
    call = getattr(statement, "value", None)
    return last_name(call.func) if isinstance(call, ast.Call) else None


def receiver(statement):
    return dotted(statement.value.func.value) if isinstance(statement.value.func, ast.Attribute) else None
