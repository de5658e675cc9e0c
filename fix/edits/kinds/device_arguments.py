"""Give the device to a function or a class that has a parameter for it, where the call leaves it to the default or gives another."""

import ast

import devices
from candidate import Candidate
from source import dotted, head, keyword, last_name

from kinds.at_use import directions
from kinds.where_made import is_type

MOVES = {"to", "cuda"}
MOST = 3  # calls of one class: with more, which of them made this object is not known


def candidates(failure):
    for source_device, device, cost in directions(failure):
        for operand in failure.on(source_device) + failure.sources_on(source_device):
            for event in ("moved", "created"):
                for depth, (source, statement, call, parameter, place) in enumerate(calls(failure, operand, event)):
                    yield from given(failure, source, statement, call, parameter, place, device, cost + 0.2 * depth)


def given(failure, source, statement, call, parameter, place, device, cost):
    value = argument(call, parameter, place)
    if value is not None and is_type(value):  # .to() takes both
        return
    for rank, (text, names_device) in enumerate(devices.here(failure, source, statement, device)):
        title = f"{parameter}={text} in the call of {source.of(call.func)}"
        each = Candidate("device-argument", title, 1.4 + cost + 0.6 * rank, names_device=names_device, says=text, wanted=device)
        if value is not None:
            yield each.replace(source, value, text)
            continue
        written = source.of(call)[:-1].rstrip()
        comma = "" if written.endswith("(") else " " if written.endswith(",") else ", "
        yield each.replace(source, call, f"{written}{comma}{parameter}={text})")


def calls(failure, operand, event):
    """(source, statement, call, parameter, its place) of the calls, from the innermost outward, by which the device came to the line
    that made or moved the operand."""
    frames = [failure.program.place(each) for each in operand.stack(event)]
    frames = frames[next((i for i, each in enumerate(frames) if each), len(frames)) :]
    wanted = decides(*frames[0]) if frames else ""
    for (source, statement), outer in zip(frames, [*frames[1:], None]):
        if wanted.startswith("self."):
            yield from of_object(failure, source, statement, wanted)
        function = source.function(statement)
        place = place_of(source, function, wanted) if function else None
        call = call_of(*outer, source, function) if outer and place is not None else None
        if call is None:
            return
        yield *outer, call, wanted, place
        wanted = dotted(argument(call, wanted, place)) or ""


def decides(source, statement):
    """`device` of torch.zeros(3, device=device), `self.device` of x.to(self.device): what the statement asks for a device; of one that
    asks nothing, as torch.cat(levels), its function's parameter."""
    for call in head(statement):
        if not isinstance(call, ast.Call):
            continue
        named = keyword(call, "device") or keyword(call, "map_location")
        value = named.value if named else call.args[0] if call.args and last_name(call.func) in MOVES else None
        if isinstance(value, ast.Call) and dotted(value.func) == "torch.device" and value.args:
            value = value.args[0]
        if value is not None:
            return dotted(value) if isinstance(value, ast.Name) or (dotted(value) or "").startswith("self.") else ""
    function = source.function(statement)
    return next((name for name in devices.DEVICE_NAMES if function and place_of(source, function, name) is not None), "")


def of_object(failure, source, statement, attribute):
    """Calls of the class whose constructor keeps its parameter as that attribute."""
    owner = source.class_of(statement)
    constructor = constructor_of(owner)
    for node in ast.walk(constructor) if constructor else ():
        if not isinstance(node, ast.Assign) or attribute not in [dotted(each) for each in node.targets]:
            continue
        kept = [each.id for each in ast.walk(node.value) if isinstance(each, ast.Name)]
        parameter = next((each for each in kept if place_of(source, constructor, each) is not None), None)
        if parameter is None:
            continue
        found = [(*each, parameter, place_of(source, constructor, parameter)) for each in constructions(failure, owner)]
        yield from found if len(found) <= MOST else ()
        return


def constructions(failure, owner):
    """(source, statement, call) where objects of the class are made. By its name, by that of a class that has its constructor, or by
    super().__init__ in one that has its own."""
    for source in failure.files():
        subclasses = [node for node in ast.walk(source.tree) if isinstance(node, ast.ClassDef) and owner.name in map(last_name, node.bases)]
        names = [owner.name, *(each.name for each in subclasses if not constructor_of(each))]
        supers = {node for each in subclasses for node in ast.walk(constructor_of(each) or each) if is_super(node)}
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Call) and (last_name(node.func) in names or node in supers):
                yield source, source.statement(node.lineno), node


def is_super(node):
    called = node.func if isinstance(node, ast.Call) else None
    return isinstance(called, ast.Attribute) and called.attr == "__init__" and isinstance(called.value, ast.Call) and dotted(called.value.func) == "super"


def constructor_of(owner):
    return next((each for each in owner.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"), None) if owner else None


def place_of(source, function, name):
    """Which argument of a call the parameter is, -1 for one that has to be named; None: the function has no such parameter."""
    positional = source.positional(function)
    if name in positional:
        return positional.index(name)
    return -1 if name in [each.arg for each in function.args.kwonlyargs] else None


def argument(call, parameter, place):
    named = keyword(call, parameter)
    if named is not None:
        return named.value
    starred = any(isinstance(each, ast.Starred) for each in call.args)
    return call.args[place] if 0 <= place < len(call.args) and not starred else None


def call_of(source, statement, of, function):
    """The statement's call of a function of the program, by its name; of a constructor by its class's, or as super()'s."""
    owner = of.class_of(function)
    names = {function.name} | ({owner.name} if owner and function.name == "__init__" else set())
    return next((node for node in head(statement) if isinstance(node, ast.Call) and last_name(node.func) in names), None)
