"""Tell the module of its tensors and modules, so that .to() moves them."""

import ast

from candidate import Candidate
from source import dotted, last_name

LISTS = (ast.List, ast.ListComp, ast.GeneratorExp, ast.Tuple)
MODULES = ("torch.nn", "nn")


def candidates(failure):
    wanted = attributes(failure.operands)
    tensors = attributes(each for each in failure.operands if not each.is_state)
    for source in failure.files():
        for class_ in ast.walk(source.tree):
            if not isinstance(class_, ast.ClassDef) or not is_module(class_, source):
                continue
            for statement in ast.walk(class_):
                name = assigned(statement)
                if name is None or source.class_of(statement) is not class_:
                    continue
                likely = name in wanted
                yield from container(failure, source, statement, name, likely)
                if name in tensors:
                    yield from buffer(source, statement, name)


def attributes(operands):
    """Names X of `self.X` under which operands are known in any frame, and what leads to them."""
    found = set()
    for operand in operands:
        for name in [*operand.names.values(), operand.raw.get("name") or "", operand.raw.get("module_path") or ""]:
            found.update(part.split("[")[0] for part in name.split("."))
    return found - {"self", "weight", "bias", ""}


def is_module(class_, source):
    """Derived from something that is no plain object: the trial shows whether it has what is needed."""
    return any((dotted(base) or "").split(".")[-1] not in ("", "object", "ABC", "Dataset", "Enum") for base in class_.bases)


def assigned(statement):
    """X of `self.X = …`; None for any other statement."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
        target = statement.target
    else:
        return None
    if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self":
        return target.attr
    return None


def buffer(source, statement, name):
    value = statement.value
    if isinstance(value, (ast.Constant, ast.Name, *LISTS, ast.Dict)) and not isinstance(value, ast.Name):
        return
    if isinstance(value, ast.Call) and last_name(value.func) in ("Parameter", "ModuleList", "Sequential", "partial"):
        return
    text = f'self.register_buffer("{name}", {source.of(value)}, persistent=False)'
    yield Candidate("register-buffer", f"register {name} as a buffer", 1.0).replace(source, statement, text)


def container(failure, source, statement, name, likely):
    """A list or dict of modules or parameters that the module does not look into."""
    value = statement.value
    if isinstance(value, (ast.Dict, ast.DictComp)):
        wrapper, elements = "Dict", value.values if isinstance(value, ast.Dict) else [value.value]
    elif isinstance(value, (ast.List, ast.Tuple)):
        wrapper, elements = "List", value.elts
    elif isinstance(value, ast.ListComp):
        wrapper, elements = "List", [value.elt]
    else:
        return
    if not likely and not any(each.is_state for each in failure.operands):
        return
    calls = [each for each in elements if isinstance(each, ast.Call)]
    if not likely and not any((last_name(each.func) or "")[:1].isupper() for each in calls):
        return
    of = "Parameter" if any(last_name(each.func) == "Parameter" for each in calls) else "Module"
    nn = nn_name(source)
    if nn is None:
        return
    written = source.of(value)
    each = Candidate("register-modules", f"{name}: nn.{of}{wrapper}", 1.0 if likely else 3.0)
    yield each.replace(source, value, f"{nn}.{of}{wrapper}({written})")


def nn_name(source):
    """How the file calls torch.nn."""
    imports = [node for node in ast.walk(source.tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
    for node in imports:
        for alias in node.names:
            whole = f"{node.module}.{alias.name}" if isinstance(node, ast.ImportFrom) else alias.name
            if whole == "torch.nn" and (alias.asname or isinstance(node, ast.ImportFrom)):
                return alias.asname or alias.name
    plain = any(alias.name.split(".")[0] == "torch" and not alias.asname for node in imports if isinstance(node, ast.Import) for alias in node.names)
    return "torch.nn" if plain else None
