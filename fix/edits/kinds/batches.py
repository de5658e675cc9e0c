"""A batch, a list of dicts, a dataclass: moved whole, where the function that is given it or the loop over it begins."""

import ast

import devices
from candidate import Candidate
from source import dotted, last_name, of_scope, parsed

from kinds.at_use import directions


def candidates(failure):
    for source_device, device, cost in directions(failure):
        for operand in failure.on(source_device):
            if operand.is_state or not operand.movable:
                continue
            for site in failure.sites:
                yield from unpacked(failure, operand, site, device, cost)
            for outward, site in enumerate(failure.sites):
                found = container(operand, site)
                bound = found and binding(site, found[0])
                if not bound:
                    continue
                ways = devices.here(failure, site.source, site.statement, device, first=bound if isinstance(bound, ast.Assign) else bound.body[0])
                for rank, (text, names_device) in enumerate(ways):
                    for order, value in enumerate(moved(failure, *found, text, site.source.of(bound))):
                        prior = 1.4 + cost + 0.6 * rank + 0.2 * order - 0.1 * min(outward, 5)
                        each = Candidate("move-batch", f"all of {found[0]} to {text}", prior, names_device=names_device, says=text, wanted=device)
                        yield placed(each, site.source, bound, f"{found[0]} = {value}")


def unpacked(failure, operand, site, device, cost):
    """`a, b = sample()`: all that it gives."""
    name = operand.names.get(site.index) or ""
    bound = binding(site, name) if name.isidentifier() else None
    if not isinstance(bound, ast.Assign) or not isinstance(bound.targets[0], ast.Tuple) or not isinstance(bound.value, ast.Call):
        return
    for rank, (text, names_device) in enumerate(devices.here(failure, site.source, site.statement, device, first=bound)):
        written = site.source.of(bound.value)
        each = Candidate("move-batch", f"all that {written} gives to {text}", 1.5 + cost + 0.6 * rank, names_device=names_device, says=text, wanted=device)
        yield each.replace(site.source, bound.value, f"[each.to({text}) for each in {written}]")


def container(operand, site):
    """`batch` and the way from it to the operand, of `batch["boxes"][0]` or `batch.ids` in that frame. The fields' names say more
    than their places."""
    names = [each["name"] for each in operand.raw.get("names") or [] if each["frame"] == site.index]
    for name in names:
        names = names + list(as_field(operand, name))
    for node in sorted(filter(None, map(parsed, names)), key=lambda each: not isinstance(each, ast.Attribute)):
        steps = []
        while isinstance(node, (ast.Subscript, ast.Attribute)):
            steps.insert(0, node.attr if isinstance(node, ast.Attribute) else node.slice)
            node = node.value
        constant = all(isinstance(each, (str, ast.Constant)) for each in steps)
        if steps and constant and isinstance(node, ast.Name) and node.id not in ("self", "cls"):
            return node.id, steps
    return None


def as_field(operand, name):
    """`step.obs` for `step[0]`, where another frame knows that place of its container as the field obs."""
    root, bracket, rest = name.partition("[")
    all_names = [each["name"] for each in operand.raw["names"]]
    for other in all_names if bracket else ():
        before, _, field = other.partition(".")
        if f"{before}[{rest}" in all_names and field.isidentifier():
            yield f"{root}.{field}"


def binding(site, name):
    """The loop or the assignment that gives the variable its value in the site's function. None for an argument, which its caller
    has under a name, too."""
    function = site.source.function(site.statement)
    found = None
    for node in of_scope(function or site.source.tree):
        if isinstance(node, (ast.For, ast.AsyncFor)):
            inside, targets = node.lineno <= site.line <= node.end_lineno, [node.target]
        elif isinstance(node, ast.Assign):
            inside, targets = node.end_lineno < site.line, node.targets
        else:
            continue
        names = {each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
        if inside and name in names and (found is None or node.lineno > found.lineno):
            found = node
    return found


def moved(failure, text, steps, device, made_by):
    """Expressions for the same container with all that is alike in it on the device; the shortest first."""
    if not steps:
        return [f"{text}.to({device})"]
    step, rest = steps[0], steps[1:]
    if isinstance(step, str):
        return of_fields(failure, text, step, rest, device, made_by)
    if isinstance(step.value, str):
        if rest:
            return [f'{{**{text}, "{step.value}": {inner}}}' for inner in moved(failure, f'{text}["{step.value}"]', rest, device, made_by)]
        plain = f"{{key: value.to({device}) for key, value in {text}.items()}}"
        some = f'{{key: value.to({device}) if hasattr(value, "to") else value for key, value in {text}.items()}}'
        return [*([f"{text}.to({device})"] if has_to(failure) else []), plain, some]
    element = "each" if not text.startswith("each") else "one"
    return [f"[{inner} for {element} in {text}]" for inner in moved(failure, element, rest, device, made_by)]


def has_to(failure):
    """Some class of the program's own, or of a library, that is no plain dict: one with a method `to` for all that it holds."""
    return any(isinstance(node, ast.ClassDef) and has_method_to(node) for source in failure.files() for node in ast.walk(source.tree))


def of_fields(failure, text, field, rest, device, made_by):
    """Of an object: by its own method, else a new one of its class. Of several classes with that field the one that is named where
    the variable gets its value."""
    classes = [node for source in failure.files() for node in ast.walk(source.tree) if isinstance(node, ast.ClassDef) and field in annotated(node)]
    for class_ in sorted(classes, key=lambda each: f"{each.name}(" not in made_by)[:1]:
        if has_method_to(class_):
            return [f"{text}.to({device})"]
        fields = annotated(class_)
        tensors = [name for name, kind in fields.items() if kind.endswith("Tensor")]
        if rest or field not in tensors:
            return []
        all_of_it = len(tensors) == len(fields)
        if any(last_name(base) == "NamedTuple" for base in class_.bases):
            given = ", ".join(f"{name}={text}.{name}.to({device})" for name in tensors)
            return [f"type({text})(*(value.to({device}) for value in {text}))" if all_of_it else f"{text}._replace({given})"]
        if any(last_name(getattr(each, "func", each)) == "dataclass" for each in class_.decorator_list):
            given = ", ".join(f'"{name}": {text}.{name}.to({device})' for name in tensors)
            every = f"{{name: value.to({device}) for name, value in vars({text}).items()}}"
            return [f"type({text})(**{every})" if all_of_it else f"type({text})(**{{**vars({text}), {given}}})"]
        return []
    # An object of the program's own that keeps it keeps more than a batch does.
    nodes = [node for source in failure.files() for node in ast.walk(source.tree) if isinstance(node, ast.Attribute)]
    own = any(dotted(node) == f"self.{field}" and isinstance(node.ctx, ast.Store) for node in nodes)
    return [] if rest or own else [f"{text}.to({device})"]


def has_method_to(class_):
    return any(isinstance(each, ast.FunctionDef) and each.name == "to" for each in class_.body)


def annotated(class_):
    """name: what the class says of it."""
    return {each.target.id: ast.unparse(each.annotation) for each in class_.body if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)}


def placed(candidate, source, bound, line):
    """First thing in the loop, or behind the assignment."""
    if not isinstance(bound, ast.Assign):
        return candidate.before(source, bound.body[0], line)
    target, value = line.split(" = ", 1)
    if len(bound.targets) == 1 and dotted(bound.targets[0]) == target and value == f"{target}.to({candidate.says})" and isinstance(bound.value, ast.Call):
        return candidate.insert(source, source.span(bound.value)[1], f".to({candidate.says})")
    return candidate.after(source, bound, line)
