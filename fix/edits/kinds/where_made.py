"""Give the operand its device where it is made, or send it elsewhere where it was moved."""

import ast
import re

import devices
from candidate import Candidate, grouped
from source import dotted, head, keyword, last_name
from standing import is_result
from torch_functions import MAKES, METHODS, RANDOM, TAKE_DEVICE

from kinds.at_use import directions, outermost

DEVICE = re.compile(r"^(cuda|cpu)(:\d+)?$")


def candidates(failure):
    for source_device, device, cost in directions(failure):
        yield from of_operands(failure, failure.on(source_device), device, cost)
        # What they were computed from, as far as that is no state, which is moved with its module.
        sources = [each for each in failure.sources_on(source_device) if not each.is_state]
        yield from of_operands(failure, sources, device, cost)


def of_operands(failure, moved, device, cost):
    if not moved:
        return
    failing = evaluated(failure, moved)
    for event in ("moved", "created"):
        yield from all_at_once(failure, moved, event, device, cost)
        for depth, (source, statement) in enumerate(statements(failure, moved, event) or assignments(failure, moved, event)):
            early = in_constructor(source, statement)
            prior = (1.6 if event == "moved" else 1.8) + 0.5 * depth + cost + (0.4 if early else 0)
            for rank, (text, names_device) in enumerate(devices.here(failure, source, statement, device)):
                whole = (depth == 0 or gives(failure, moved, source, statement)) and statement is not failing
                for kind, edits in at(source, statement, text, event, whole):
                    title = "made on" if event == "created" else "moved to"
                    each = Candidate(kind, f"{names(moved)}: {title} {text}", prior + 0.6 * rank, names_device=names_device, says=text, wanted=device)
                    each.edits = [(source, *source.span(node), new) for node, new in edits]
                    # The program has chosen a device, and the line writes the number of another.
                    if text == devices.CURRENT and any(devices.NUMBERED.search(source.of(node)) for node, _ in edits):
                        each.prior -= 3
                    yield each


def gives(failure, operands, source, statement):
    """In a function of the failing call, the assignment that gives an operand its name there."""
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    sites = [site for site in failure.sites if (site.source, source.function(statement)) == (source, site.source.function(site.statement))]
    return any(dotted(target) == each.names.get(site.index, "") for target in targets if target is not None for site in sites for each in operands)


def all_at_once(failure, operands, event, device, cost):
    """Operands that several lines made or moved: all of these lines, going to the same device in the same words."""
    lines = []
    for operand in operands:
        lines += [each for each in statements(failure, [operand], event)[:1] if each not in lines]
    if len(lines) < 2:
        return
    ways = [devices.here(failure, source, statement, device) for source, statement in lines]
    common = [way for way in ways[0] if all(way in each for each in ways[1:])]
    for rank, (text, names_device) in enumerate(common):
        edits = [next(at(source, statement, text, event, False), None) for source, statement in lines]
        if None in edits:
            return
        title = f"{names(operands)}: all {'made on' if event == 'created' else 'moved to'} {text}"
        prior = (1.5 if event == "moved" else 1.7) + cost + 0.6 * rank
        each = Candidate(edits[0][0], title, prior, names_device=names_device, says=text, wanted=device)
        each.edits = [(source, *source.span(node), new) for (source, _), (_, pairs) in zip(lines, edits) for node, new in pairs]
        yield each


def evaluated(failure, operands):
    """The failing statement, where it has computed the operands itself: what it gives in the end comes too late for them."""
    own = all(is_result(each) for each in operands)
    return failure.sites[0].statement if own and failure.sites and failure.sites[0].index == 0 else None


def assignments(failure, operands, event):
    """Of an attribute that nobody saw being made, as one without elements: the lines of the class that make it."""
    found = []
    for site in failure.sites if event == "created" else []:
        for operand in operands:
            name, owner = operand.names.get(site.index) or "", site.source.class_of(site.statement)
            if owner is None or not name.startswith("self.") or operand.stack("created"):
                continue
            for statement in ast.walk(owner):
                if not isinstance(statement, ast.Assign) or [dotted(each) for each in statement.targets] != [name]:
                    continue
                made = any(make(site.source, each, "") for each in ast.walk(statement.value) if isinstance(each, ast.Call))
                if made and (site.source, statement) not in found:
                    found.append((site.source, statement))
    return found


def names(operands):
    return ", ".join(dict.fromkeys(each.name() for each in operands))


def in_constructor(source, statement):
    function = source.function(statement)
    return function is None or function.name == "__init__"


def statements(failure, operands, event):
    """The program's statements on the stacks of that event, the innermost of each operand first."""
    found = []
    stacks = [[frame for frame in outside_of_loaders(each.stack(event)) if frame.get("project") and frame.get("file")] for each in operands]
    for depth in range(3):
        for stack in stacks:
            if depth < len(stack):
                place = failure.program.place(stack[depth])
                if place and place not in found:
                    found.append(place)
    return found


def outside_of_loaders(stack):
    """What a data loader calls may run in a worker, which uses no GPU: what it gives is moved where it is taken."""
    inside = [place for place, frame in enumerate(stack) if "/torch/utils/data/" in (frame.get("file") or "")]
    return stack[inside[-1] + 1 :] if inside else stack


def at(source, statement, text, event, innermost):
    """(kind, [(node, new text)]) for what in the statement decides on a device."""
    calls = [node for node in head(statement) if isinstance(node, ast.Call)]
    redirected = [edit for call in calls if (edit := redirect(source, call, text))]
    if redirected:  # of x.to(torch.device("cuda")) the whole argument
        whole = outermost(source, [node for node, _ in redirected])
        yield "redirect-move", [each for each in redirected if each[0] in whole]
    made = [edit for call in calls if (edit := make(source, call, text))] if event == "created" else []
    if made:
        yield "device-at-creation", made
    value = getattr(statement, "value", None)
    if not innermost or value is None or source.of(value).endswith(f".to({text})"):
        return
    target = statement.targets[0] if isinstance(statement, ast.Assign) else getattr(statement, "target", None)
    if isinstance(statement, (ast.Assign, ast.AnnAssign)) and isinstance(target, (ast.Name, ast.Attribute, ast.Subscript)):
        if isinstance(value, (ast.Call, ast.BinOp, ast.Subscript, ast.Attribute, ast.UnaryOp)):
            yield "redirect-move" if event == "moved" else "device-at-creation" if made else "move-result", [(value, f"{grouped(source, value)}.to({text})")]
    elif isinstance(statement, ast.Return) and isinstance(value, (ast.Call, ast.BinOp, ast.Subscript, ast.Name)):
        yield "device-at-creation" if made else "move-result", [(value, f"{grouped(source, value)}.to({text})")]


def redirect(source, call, text):
    """`x.cuda()` and `x.to(somewhere)` going to another device; a device given to any other call."""
    function = call.func
    if isinstance(function, ast.Attribute) and function.attr in ("cuda", "cpu") and dotted(function.value) != "torch":
        kept = [source.of(each) for each in call.keywords if each.arg not in (None, "device")]
        return call, f"{grouped(source, function.value)}.to({', '.join([text, *kept])})"
    for node in [*call.args, *(each.value for each in call.keywords)]:
        if is_device(node):
            return node, text
    if isinstance(function, ast.Attribute) and function.attr == "to" and call.args:
        first = call.args[0]
        if not is_type(first):
            return first, text
    return None


def is_type(node):
    """`torch.int32`, `x.dtype`: no place."""
    return (dotted(node) or "").startswith("torch.") or (last_name(node) or "").endswith("dtype")


def is_device(node):
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and bool(DEVICE.match(node.value))
    if isinstance(node, ast.Call):
        return dotted(node.func) in ("torch.device", "torch.cuda.current_device")
    return last_name(node) in devices.DEVICE_NAMES


def make(source, call, text):
    name = last_name(call.func)
    if name not in MAKES or (name not in METHODS and (dotted(call.func) or "").split(".")[0] != "torch"):
        return None
    # The CPU's generator gives other numbers than a GPU's: they are made where they were, and moved.
    if name in RANDOM or name not in TAKE_DEVICE:
        return call, f"{source.of(call)}.to({text})"
    given = keyword(call, "device")
    if given is not None:
        return given.value, text
    written = source.of(call)
    inside = written[:-1].rstrip()
    comma = "" if inside.endswith(("(", ",")) else ", "
    return call, f"{inside}{comma}{' ' if inside.endswith(',') else ''}device={text})"
