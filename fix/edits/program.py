"""The program's own files, and the failing call as its syntax trees show it."""

import ast
import os
from dataclasses import dataclass, field

from source import Source, dotted, head, last_name, parsed, same


class Program:
    """Files are read when asked for; `texts` stand for files that are edited already."""

    def __init__(self, texts=None):
        self.texts = texts or {}
        self.read = {}

    def source(self, path):
        """None for a file that is no readable Python."""
        if path not in self.read:
            try:
                self.read[path] = Source(path, self.texts.get(path))
            except (OSError, SyntaxError, ValueError, UnicodeError, RecursionError):
                self.read[path] = None
        return self.read[path]

    def place(self, frame):
        """(source, innermost statement) of a frame of the program's; None where it is a library's, or has no such line."""
        source = self.source(frame["file"]) if frame.get("project") and frame.get("file") else None
        statement = source and source.statement(frame.get("line", 0))
        return (source, statement) if statement is not None else None

    def files(self, paths):
        """These files and those of the program that they import, by what their imports say."""
        todo, seen = list(dict.fromkeys(paths)), []
        roots = list(dict.fromkeys(os.path.dirname(path) for path in todo))
        while todo and len(seen) < 200:
            path = todo.pop(0)
            if path in seen or self.source(path) is None:
                continue
            seen.append(path)
            todo += [each for each in imported(self.source(path), roots) if each not in seen]
        return [self.source(path) for path in seen]


def imported(source, roots):
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
            folders = roots
        elif isinstance(node, ast.ImportFrom):
            folders = roots
            if node.level:
                folder = os.path.dirname(source.path)
                for _ in range(node.level - 1):
                    folder = os.path.dirname(folder)
                folders = [folder]
            module = node.module or ""
            names = [module] + [f"{module}.{alias.name}".strip(".") for alias in node.names]
        else:
            continue
        for folder in folders:
            for name in filter(None, names):
                stem = os.path.join(folder, *name.split("."))
                for path in (stem + ".py", os.path.join(stem, "__init__.py")):
                    if os.path.isfile(path) and "site-packages" not in path:
                        yield path


@dataclass
class Operand:
    raw: dict
    index: int
    names: dict = field(default_factory=dict)  # frame: name

    @property
    def device(self):
        return self.raw.get("device", "")

    @property
    def is_state(self):
        return bool(self.raw.get("is_parameter")) or self.raw.get("role") in ("parameter", "buffer")

    @property
    def movable(self):
        """Not what accelerate's hooks bring when its module is called, and what has no values."""
        return self.device != "meta" and not self.raw.get("hook")

    def name(self):
        return self.raw.get("name") or "the tensor"

    def stack(self, event):
        return (self.raw.get(event) or {}).get("python") or []


@dataclass
class Site:
    """A frame of the failing call in a file of the program."""

    index: int
    source: Source
    line: int
    statement: ast.stmt
    function: str

    def calls(self):
        return [node for node in head(self.statement) if isinstance(node, ast.Call)]


class Failure:
    def __init__(self, finding, program):
        self.finding = finding
        self.program = program
        self.stack = finding.get("python") or []
        self.message = finding.get("message", "")
        self.operation = finding.get("operation", "")
        # Ranks of a job lie on devices, too, and nothing moves them.
        self.ranks, self.operands = [], []
        for index, raw in enumerate(finding.get("operands") or []):
            if raw.get("role") == "rank":
                self.ranks.append(Operand(raw, index))
                continue
            names = {}
            for each in raw.get("names") or []:
                names.setdefault(each["frame"], each["name"])
            self.operands.append(Operand(raw, index, names))
        self.sites = self.sites_of(self.stack)
        self.nodes = {}  # (operand, frame): expressions of that frame's statement that give the operand
        # What the results of expressions were computed from: a device is decided for these, not for the result.
        self.sources = []
        for operand in self.operands:
            if not operand.raw.get("name"):
                self.add_sources(operand.raw)
        for operand in self.operands + self.sources:
            self.follow(operand)

    def sites_of(self, stack):
        found = []
        for index, frame in enumerate(stack):
            if place := self.program.place(frame):
                source, statement = place
                found.append(Site(index, source, frame["line"], statement, frame.get("function", "")))
        return found

    def add_sources(self, raw):
        for each in raw.get("computed_from") or []:
            names = {}
            for one in each.get("names") or []:
                names.setdefault(one["frame"], one["name"])
            self.sources.append(Operand(each, len(self.operands) + len(self.sources), names))
            self.add_sources(each)

    def has_no_backend(self):
        """A collective for a tensor of the host's, in a group that works on the rank's current device."""
        return self.message.startswith("No backend type associated with device type cpu")

    def devices(self):
        return list(dict.fromkeys(each.device for each in self.operands if each.device))

    def on(self, device):
        return [each for each in self.operands if each.device == device]

    def sources_on(self, device):
        return [each for each in self.sources if each.device == device]

    def files(self):
        """The program's files: those of every stack, then what they import."""
        stacks = [self.stack] + [each.stack(event) for each in self.operands + self.ranks for event in ("created", "moved")]
        paths = [frame["file"] for stack in stacks for frame in stack if frame.get("project") and frame.get("file")]
        return self.program.files(paths)

    def follow(self, operand):
        """Finds the operand in each frame's statement. By its name there, as the result of a call there, or as the
        argument that became a named parameter of the next frame inward."""
        inner = None
        for site in self.sites:
            nodes = reads(site, operand.names.get(site.index))
            if not nodes and site.index == 0:
                nodes = reads(site, operand.raw.get("expression"))
            if not nodes and inner is not None:
                nodes = argument(site, inner, operand)
            if not nodes:
                nodes = result(site, operand, len(self.stack))
            self.nodes[operand.index, site.index] = nodes
            inner = site

    def at(self, operand, site):
        return self.nodes.get((operand.index, site.index)) or []


METADATA = {"shape", "device", "dtype", "size", "dim", "ndim", "numel", "is_cuda", "requires_grad", "layout", "stride"}


def reads(site, name):
    """Where the statement reads `name` for its values: not for its shape, and not to write into it."""
    wanted = parsed(name) if name else None
    if wanted is None:
        return []
    found = []
    for node in head(site.statement):
        if type(node) is type(wanted) and same(node, wanted) and not spared(site.source, node):
            found.append(node)
    return found


def spared(source, node):
    parent = source.parents.get(node)
    if isinstance(parent, ast.Attribute):
        if parent.attr in METADATA:
            return True
        call = source.parents.get(parent)
        in_place = parent.attr.endswith("_") and not parent.attr.endswith("__")
        return in_place and isinstance(call, ast.Call) and call.func is parent
    if isinstance(parent, ast.Subscript) and parent.value is node:
        return not isinstance(parent.ctx, ast.Load)
    return isinstance(parent, ast.keyword) and parent.arg == "out"


def result(site, operand, depth):
    """The call in the statement that made the operand, by the stack of its creation."""
    for event in ("moved", "created"):
        stack = operand.stack(event)
        outside = depth - site.index  # frames from this one outward
        if len(stack) <= outside or stack[len(stack) - outside].get("function") != site.function:
            continue
        here = stack[len(stack) - outside]
        if here.get("file") != site.source.path or site.source.statement(here.get("line", 0)) is not site.statement:
            continue
        inner = stack[len(stack) - outside - 1].get("function", "").rsplit(".", 1)[-1]
        return [call for call in site.calls() if last_name(call.func) == inner]
    return []


def argument(site, inner, operand):
    """The argument of the call in `site` that the function running in `inner` knows the operand by."""
    function = inner.source.function(inner.statement)
    name = (operand.names.get(inner.index) or "").split("[")[0].split(".")[0]
    if function is None or not name:
        return []
    positional = inner.source.positional(function)
    found = []
    for call in site.calls():
        called = last_name(call.func)
        if called != function.name and function.name not in ("forward", "__call__", "__init__", "wrapper", "<lambda>"):
            continue
        if function.name == "forward" and dotted(call.func) and dotted(call.func).split(".")[0] == "torch":
            continue
        for each in call.keywords:
            if each.arg == name:
                found.append(each.value)
        if name in positional:
            index = positional.index(name)
            if index < len(call.args) and not any(isinstance(each, ast.Starred) for each in call.args[: index + 1]):
                found.append(call.args[index])
    return found
