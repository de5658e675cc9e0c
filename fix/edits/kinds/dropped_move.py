"""`x.to(device)` gives a new tensor: a statement that drops it moves nothing."""

import ast

from candidate import Candidate


def candidates(failure):
    named = {name for operand in failure.operands for name in operand.names.values()}
    for source in failure.files():
        for statement in ast.walk(source.tree):
            if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
                continue
            call = statement.value
            if not isinstance(call.func, ast.Attribute) or call.func.attr not in ("to", "cuda", "cpu"):
                continue
            receiver = call.func.value
            if not isinstance(receiver, (ast.Name, ast.Attribute, ast.Subscript)):
                continue
            text = source.of(receiver)
            likely = text in named
            last = text.split(".")[-1]
            known = likely or any(last == name.split(".")[-1].split("[")[0] for name in named)
            if not known:
                continue
            each = Candidate("keep-moved", f"keep what {text}.{call.func.attr}(…) gives", 0.5 if likely else 1.2)
            yield each.insert(source, source.span(statement)[0], f"{text} = ")
