"""An optimizer's state lies where its parameters were when it was made or loaded."""

import ast

import devices
from candidate import Candidate
from source import dotted, last_name


def candidates(failure):
    if not in_optimizer(failure):
        return
    yield from where_made(failure)
    yield from before_steps(failure)
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


def in_optimizer(failure):
    """One of a library, or a class of the program's that is derived from one. Other objects have a method step, too."""
    if any("optim" in frame.get("file", "") and not frame.get("project") for frame in failure.stack):
        return True
    for site in failure.sites:
        owner = site.source.class_of(site.statement)
        if owner is not None and any("optim" in (dotted(base) or "").lower() for base in owner.bases):
            return True
    return False


def where_made(failure):
    """The model is moved before the optimizer is made, where that function knows the device; whoever moves it later."""
    wanted = next((each for each in failure.devices() if each.startswith("cuda")), None)
    for source in failure.files() if wanted else ():
        for statement in ast.walk(source.tree):
            model = makes_optimizer(statement)
            for text, names_device in devices.ways(failure, source, statement, wanted) if model else ():
                each = Candidate("optimizer-state", f"{model} is on {text} before its optimizer is made", 1.2 + 1.2 * names_device, names_device=names_device)
                yield each.before(source, statement, f"{model}.to({text})")


def before_steps(failure):
    """In front of the loop that calls step(), wherever the optimizer was made, loaded, or its model moved."""
    for site in failure.sites:
        for call in site.calls():
            name = dotted(call.func.value) if isinstance(call.func, ast.Attribute) and call.func.attr == "step" else None
            if name is None:
                continue
            outermost, loop = site.statement, site.source.enclosing(site.statement, (ast.For, ast.While))
            while loop is not None and site.source.function(loop) is site.source.function(site.statement):
                outermost, loop = loop, site.source.enclosing(loop, (ast.For, ast.While))
            if devices.names_known(site.source, outermost, name):
                each = Candidate("optimizer-state", f"{name} casts its state to its parameters' devices before its steps", 1.5)
                yield each.before(site.source, outermost, f"{name}.load_state_dict({name}.state_dict())")


def optimizers_at(source, scope, statement):
    """What optimizers are called there: made in that function before, an argument, or an attribute of its class."""
    found = []
    if isinstance(scope, ast.FunctionDef):
        found += [each.arg for each in scope.args.args if each.arg.lower().startswith("opt")]
    class_ = source.class_of(scope) if isinstance(scope, ast.FunctionDef) else None
    for node in ast.walk(class_ or scope):
        if not isinstance(node, ast.Assign) or not makes_optimizer(node):
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
    """`model` of `Adam(model.parameters())`, where a statement keeps or returns that; None for any other."""
    call = getattr(statement, "value", None)
    if not isinstance(statement, (ast.Assign, ast.Return)) or not isinstance(call, ast.Call) or not (last_name(call.func) or "")[:1].isupper():
        return None
    asked = [node.func for node in ast.walk(call) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "parameters"]
    return next(filter(None, (dotted(each.value) for each in asked)), None)


def called(statement):
    call = getattr(statement, "value", None)
    return last_name(call.func) if isinstance(call, ast.Call) else None


def receiver(statement):
    return dotted(statement.value.func.value) if isinstance(statement.value.func, ast.Attribute) else None
