"""Where an edit stands in the program: where the operand comes from or where it is used, and whether the device that it names is named there."""

import ast

from devices import NUMBERED
from source import of_scope

# These stand at either place; all others but moves of what was computed change what decides on a device.
AT_EITHER = {"reported-fix", "move-module"}


def at_use(failure, candidate):
    """It makes the line run. It changes no line that decides on a device, or only lines of the failing call, and none that made an
    operand or brought it there."""
    if candidate.kind == "move-result":
        return not in_running_function(failure, candidate)
    if candidate.kind not in AT_EITHER:
        return candidate.kind == "move-at-use"
    lines = [(source, source.statement(source.line_at(start))) for source, start, _, _ in candidate.edits]
    used = [(site.source, site.statement) for site in failure.sites]
    return all(each in used for each in lines) and not any(each in origins(failure) for each in lines)


def in_running_function(failure, candidate):
    """It changes what a variable is given in a function of the failing call: all uses behind that have it. What a function has given
    that is over is moved where it is used as well as there."""
    source, line = candidate.place()
    statement = source.statement(line)
    running = [(site.source, site.source.function(site.statement)) for site in failure.sites]
    return isinstance(statement, (ast.Assign, ast.AnnAssign)) and (source, source.function(statement)) in running


def origins(failure):
    """The program's innermost statements on the stacks of the operands' creation and last move. Not the failing one: what it makes
    on its way (a temporary, a recurrent layer's first state) comes from nowhere else."""
    found = []
    for operand in failure.operands:
        for event in ("created", "moved"):
            frame = next((each for each in operand.stack(event) if each.get("project") and each.get("file")), {})
            place = failure.program.place(frame)
            if place and not (failure.sites and place[1] is failure.sites[0].statement):
                found.append(place)
    return found


def is_result(operand):
    """Of an expression of the failing line, in this very evaluation."""
    return bool(operand.raw.get("expression")) and not operand.raw.get("name")


def names_new_device(candidate, repairs):
    """It writes a device's number where the program does not: that another machine has it does not follow from the program itself. It
    does where the same function, or the module's own code, names it already; and where the mistake is that the line names none."""
    if not candidate.names_device:
        return False
    if candidate.kind == "reported-fix" and repairs:
        return False
    for source, start, end, text in candidate.edits:
        statement = source.statement(source.line_at(start))
        wanted = set(NUMBERED.findall(text)) - set(NUMBERED.findall(source.bytes[start:end].decode("utf-8")))
        scope = source.function(statement) or source.tree if statement is not None else source.tree
        named = {each.value for each in of_scope(scope) if isinstance(each, ast.Constant) and isinstance(each.value, str)}
        if not wanted <= named:
            return True
    return False
