"""accelerate's device maps: what must stay together, and what belongs elsewhere."""

import ast

from candidate import Candidate
from source import keyword, last_name

from kinds.at_use import directions

MAKERS = {"infer_auto_device_map", "load_checkpoint_and_dispatch", "get_balanced_memory"}
DISPATCH = {"dispatch_model", "from_pretrained", "from_config", *MAKERS}


def candidates(failure):
    classes = list(dict.fromkeys(site.function.split(".")[0] for site in failure.sites if site.function.endswith(".forward")))
    for source in failure.files():
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Call) and last_name(node.func) in MAKERS and "Balanced" not in str(last_name(node.func)):
                yield from keep_together(source, node, classes)
            elif isinstance(node, ast.Dict):
                yield from other_entry(failure, source, node)
            elif isinstance(node, ast.Assign) and any(last_name(each) == "_no_split_modules" for each in node.targets):
                for class_ in classes[:2]:
                    yield from extend(source, node.value, class_)


def keep_together(source, call, classes):
    for order, class_ in enumerate(classes[:2]):
        given = keyword(call, "no_split_module_classes")
        if given is not None:
            yield from extend(source, given.value, class_, order)
            continue
        each = Candidate("no-split", f"{class_} is not split", 1.0 + 0.8 * order)
        yield each.insert(source, source.span(call)[1] - 1, f', no_split_module_classes=["{class_}"]')


def extend(source, node, class_, order=0):
    if not isinstance(node, ast.List) or f'"{class_}"' in source.of(node).replace("'", '"'):
        return
    inside = source.of(node)[:-1].rstrip().rstrip(",")
    comma = ", " if node.elts else ""
    yield Candidate("no-split", f"{class_} is not split", 1.0 + 0.8 * order).replace(source, node, f'{inside}{comma}"{class_}"]')


def other_entry(failure, source, node):
    """A literal device map: the module that holds an operand goes where the other operands are."""
    entries = {key.value: value for key, value in zip(node.keys, node.values) if isinstance(key, ast.Constant) and isinstance(key.value, str)}
    if not entries or not all(is_place(value) for value in entries.values()) or len(entries) != len(node.keys):
        return
    for source_device, device, _ in directions(failure):
        for operand in failure.on(source_device):
            path = operand.raw.get("module_path") or (operand.raw.get("name") if operand.is_state else "") or ""
            for key, value in entries.items():
                if key and (path == key or path.startswith(f"{key}.")):
                    each = Candidate("device-map", f"{key}: {device} in the device map", 2.4, names_device=True)
                    yield each.replace(source, value, place(device, value))
                    break
            else:
                parent = path.rpartition(".")[0] if operand.is_state else ""
                if parent and node.keys:
                    each = Candidate("device-map", f"{parent}: {device} is added to the device map", 2.4, names_device=True)
                    last = node.values[-1]
                    yield each.insert(source, source.span(last)[1], f', "{parent}": {place(device, last)}')


def is_place(node):
    if not isinstance(node, ast.Constant):
        return False
    return isinstance(node.value, int) or str(node.value).startswith(("cuda", "cpu", "disk"))


def place(device, like):
    number = isinstance(like.value, int) and device.startswith("cuda:")
    return device[5:] if number else f'"{device}"'
