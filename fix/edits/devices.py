"""How a line may say the device that it wants, always in this order: an operand that lies there, as the line calls it. What the
finding knows to mean that device in that line (known_words). What the code around uses for a device (in_scope). Its number, which is
another device's on the next machine, comes last, and only where the finding knows no words."""

import ast
import builtins
import re

from source import dotted, names_of_module, parsed
from tensors import is_list, likely

DEVICE_NAMES = ("device", "dev", "DEVICE", "target_device", "execution_device", "main_device", "compute_device")

NUMBERED = re.compile(r"""["'](cuda:\d+)["']""")
CURRENT = '"cuda"'  # the thread's current device, whichever that is
LOCAL_RANK = re.compile(r"(\w+\.)*_?local_?rank$")


def elsewhere(failure, source, statement, text, device):
    """`x.device` where x is an operand that does not lie on `device`: moving there moves nothing."""
    root = text[: -len(".device")] if text.endswith(".device") else None
    if root is None:
        return False
    for site in failure.sites:
        if site.source is source and source.function(site.statement) is source.function(statement):
            if any(each.names.get(site.index) == root and each.device != device for each in failure.operands):
                return True
    return False


def literal(device):
    return f'"{device}"'


def known_words(failure, source, statement, device):
    """What the finding knows to mean the device in that line: of a frame that runs, or of a line that an operand passed."""
    found = []

    def here(file, line):
        return file == source.path and statement.lineno <= line <= (statement.end_lineno or line)

    for each in failure.finding.get("expressions") or []:
        frame = failure.stack[each["frame"]] if each["frame"] < len(failure.stack) else {}
        if each["device"] == device and here(frame.get("file"), frame.get("line", 0)):
            found.append(each["expression"])
    for operand in failure.operands + failure.sources:
        for step in operand.raw.get("lineage") or []:
            if here(step["line"].get("file"), step["line"].get("line", 0)):
                found += [each["expression"] for each in step.get("devices") or [] if each["device"] == device]
    return [each for each in dict.fromkeys(found) if parsed(each) is not None]


def ways(failure, source, statement, device, most=1):
    """[(expression, is it the number?)] for a line in which no operand is looked for, best first."""
    known = known_words(failure, source, statement, device)
    scope = [each for each in in_scope(source, statement) if names_known(source, statement, each)]
    found = [(each, False) for each in dict.fromkeys(known + scope)][:most]
    return found if known else [*found, (literal(device), True)]


def of_operand(failure, site, device):
    """Expressions for a device that operands lie on, in that frame; best first, without the literal."""
    found = []
    for operand in failure.on(device):
        for node in failure.at(operand, site):
            if isinstance(node, (ast.Name, ast.Attribute)) and not is_module_state(operand, site):
                found.append(f"{site.source.of(node)}.device")
        name = operand.names.get(site.index)
        if name and "…" not in name and parsed(name) is not None and not calls(parsed(name)):
            found.append(f"{name}.device")
        found += [f"{each}.device" for each in computed_from(operand.raw, site, device)]
        owner = called_owner(failure, site, operand)
        if owner and name != f"{owner}.weight":
            found.insert(0, f"next({owner}.parameters()).device")
    found = [each for each in dict.fromkeys(found) if len(each) < 60]
    return sorted(found, key=lambda text: ("[" in text, text.count(".") > 3))


def calls(node):
    """Does it call anything? A model, or what draws or reads, is not asked a second time for its device."""
    return any(isinstance(each, ast.Call) for each in ast.walk(node))


def of_state(failure, site, device):
    """`next(model.parameters()).device` for what a frame calls model, some parameter of which lies on the device."""
    found = []
    for operand in failure.on(device):
        parts = (operand.names.get(site.index) or "").split(".")
        if not operand.is_state or len(parts) < 2 or "[" in parts[0]:
            continue
        root = ".".join(parts[:2]) if parts[0] == "self" and len(parts) > 2 else parts[0]
        if parsed(root) is not None and root != "self":
            found.append(f"next({root}.parameters()).device")
    return found


def computed_from(raw, site, device):
    """Variables and attributes of that frame from which the operand was computed, and which lie on the device, too."""
    found = []
    for each in raw.get("computed_from") or []:
        if each.get("device") != device or each.get("role") in ("parameter", "buffer"):
            continue
        names = [one["name"] for one in each.get("names") or [] if one["frame"] == site.index]
        found += [name for name in names[:1] if isinstance(parsed(name), (ast.Name, ast.Attribute))]
        found += computed_from(each, site, device)
    return found


def is_module_state(operand, site):
    return operand.is_state and "." in (operand.names.get(site.index) or "")


def called_owner(failure, site, operand):
    """`model` where the statement calls model(…) and the operand is model's own."""
    name = operand.names.get(site.index) or ""
    if not operand.is_state:
        return None
    for call in site.calls():
        callee = dotted(call.func)
        for owner in filter(None, (callee, callee and callee.rpartition(".")[0])):
            if owner not in ("self", "torch") and (name.startswith(owner + ".") or name.startswith(owner + "[")):
                return owner
    return None


def in_scope(source, statement):
    """Expressions for a device that the function around a statement already uses: its `device`, `x.device`."""
    function = source.function(statement)
    found = []
    if function is not None:
        arguments = [each.arg for each in function.args.posonlyargs + function.args.args + function.args.kwonlyargs]
        found += [name for name in arguments if name in DEVICE_NAMES]
    scope = function if function is not None else source.tree
    for node in ast.walk(scope):
        if getattr(node, "lineno", 0) > statement.lineno:
            continue
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            if node.attr == "device" and says_device(node.value):
                found.append(source.of(node))
        elif isinstance(node, ast.Name) and node.id in DEVICE_NAMES and node.lineno < statement.lineno:
            found.append(node.id)
    found += of_owner(source, statement)
    found += [name for name in DEVICE_NAMES if name in names_of_module(source)]
    found += said_elsewhere(source, statement)
    return list(dict.fromkeys(found))


def of_owner(source, statement):
    """`self.device` and its like: what a method's object has for a device, if not only from a later line of its constructor."""
    owner, function = source.class_of(statement), source.function(statement)
    if owner is None or function is None or not any(each.arg == "self" for each in function.args.args[:1]):
        return []
    found = [f"self.{each.name}" for each in owner.body if isinstance(each, ast.FunctionDef) and each.name in DEVICE_NAMES and each is not function]
    for node in ast.walk(owner):
        if is_device_of(node, ("self",)) and (source.function(node) is not function or node.lineno < statement.lineno):
            if source.function(node) is function or function.name != "__init__":
                found.append(ast.unparse(node))
    kept = {}  # an argument, and the attribute under which the object keeps it
    for node in ast.walk(owner):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name):
            kept.update((node.value.id, dotted(each)) for each in node.targets if (dotted(each) or "").startswith("self."))
    for node in ast.walk(owner) if function.name != "__init__" else ():
        if is_device_of(node, kept) and isinstance(node.value, ast.Name):
            found.append(kept[node.value.id] + source.of(node)[len(node.value.id) :])
    return found


def said_elsewhere(source, statement):
    """`args.device`, `accelerator.device`: what other functions of the file ask for a device, where this one has it under that name."""
    function = source.function(statement)
    if function is None:
        return []
    here = {each.arg for each in ast.walk(function.args) if isinstance(each, ast.arg)}
    here |= {each.id for each in ast.walk(function) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    return [source.of(node) for node in ast.walk(source.tree) if is_device_of(node, here - {"self"}) and says_device(node.value)]


def is_device_of(node, roots):
    """`x.device`, `x.config.device`, `x.args["device"]` of one of these variables."""
    if isinstance(node, ast.Subscript):
        named = isinstance(node.slice, ast.Constant) and node.slice.value in DEVICE_NAMES
    else:
        named = isinstance(node, ast.Attribute) and node.attr in DEVICE_NAMES
    return named and (dotted(node.value) or "").split(".")[0] in roots


def says_device(node):
    """`x`, `self.head`, `next(model.parameters())`: what the file itself asks for its device."""
    text = dotted(node)
    if text:
        return text != "torch" and not text.startswith("torch.")
    return isinstance(node, ast.Call) and dotted(node.func) == "next"


def of_arguments(source, statement):
    """`x.device` for the arguments of a method that works on tensors, forward(self, x): what is used as one first. What is
    used as a number, or as an object of another kind, has no device."""
    function = source.function(statement)
    if function is None or function.name.startswith("__init__"):
        return []
    names = [each.arg for each in function.args.posonlyargs + function.args.args]
    names = [name for name in names if name not in ("self", "cls") and name not in DEVICE_NAMES]
    found = {name: likely(source, function, name) for name in names}
    names.sort(key=lambda name: -found[name])
    return [f"{name}[0].device" if is_list(source, function, name) else f"{name}.device" for name in names if found[name]][:2]


def here(failure, source, statement, device, first=None):
    """Where an operand was made or moved: what may stand for `device` there, with whether it is a literal. `first`: the statement
    before which it has to be known, if not that one."""
    place = first or statement
    found, state = [], []
    function, owner = source.function(statement), source.class_of(statement)
    for site in failure.sites:
        if site.source is not source:
            continue
        outside = source.function(site.statement)
        if outside is function and site.statement.lineno >= statement.lineno:
            found += of_operand(failure, site, device)
        said = of_state(failure, site, device)
        if outside is None or outside is function:
            state += [each for each in said if not each.startswith("next(self.")]
        if owner is not None and source.class_of(site.statement) is owner:
            state += [each for each in said if each.startswith("next(self.")]
    scope = in_scope(source, place)
    in_class = owner is not None and bool(owner.bases)  # without a base it is no Module
    state_first = [each for each in found if "parameters()" in each or each.count(".") > 1]
    known = known_words(failure, source, place, device)
    found = [each for each in found if each not in state_first]
    found += known + scope + state_first + state
    guessed = of_arguments(source, statement)
    found += guessed
    if in_class and (function := source.function(statement)) is not None and function.name != "__init__":
        found.append("next(self.parameters()).device")
    found = [
        each
        for each in dict.fromkeys(found)
        if names_known(source, place, each) and not elsewhere(failure, source, statement, each, device)
    ][:3]
    if is_chosen(failure, device):
        found.insert(next((place for place, each in enumerate(found) if each in guessed), len(found)), CURRENT)
    number = [] if set(known) & set(found) else [(literal(device), True)]
    return [(each, False) for each in found] + number


def is_chosen(failure, device):
    """The program has made it the current device, as a rank does with its own."""
    chosen = device not in ("cpu", "cuda:0") or failure.has_no_backend()
    return device == failure.finding.get("current_device") and chosen


def local_ranks(source, statement):
    """What the file calls the rank on its machine, as far as the statement knows it: `local_rank`, `args.local_rank`."""
    nodes = [node for node in ast.walk(source.tree) if isinstance(node, (ast.arg, ast.Name, ast.Attribute))]
    said = [(node, node.arg if isinstance(node, ast.arg) else dotted(node)) for node in nodes]
    nearest = sorted(said, key=lambda each: abs(each[0].lineno - statement.lineno))
    found = dict.fromkeys(text for _, text in nearest if LOCAL_RANK.match(text or ""))
    return [each for each in found if names_known(source, statement, each)]


def names_known(source, statement, text):
    """Every name in the expression is bound in the function before the statement, is its argument, or is global."""
    node = parsed(text)
    if node is None:
        return False
    function = source.function(statement)
    bound = set(dir(builtins)) | names_of_module(source)
    if function is not None:
        for each in ast.walk(function):
            if isinstance(each, ast.arg):
                bound.add(each.arg)
            elif isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store) and each.lineno < statement.lineno:
                bound.add(each.id)
    else:
        bound = set(dir(builtins)) | names_of_module(source, statement.lineno)
    return all(each.id in bound for each in ast.walk(node) if isinstance(each, ast.Name))
