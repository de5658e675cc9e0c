"""A file of the program: its text, its syntax tree, and where in the text each node stands."""

import ast
import io
import tokenize


class Source:
    """Offsets are bytes of the text in UTF-8, as the syntax tree counts them."""

    def __init__(self, path, text=None):
        """Raises OSError, SyntaxError or ValueError for a file that cannot be read as Python."""
        self.path = path
        if text is None:
            with open(path, "rb") as file:
                raw = file.read()
            encoding, _ = tokenize.detect_encoding(io.BytesIO(raw).readline)
            if encoding not in ("utf-8", "utf-8-sig"):
                raise ValueError(f"{path}: encoded in {encoding}")
            text = raw.decode("utf-8")
        self.bytes = text.encode("utf-8")
        self.tree = with_torch_by_its_name(ast.parse(self.bytes))
        self.lines = self.bytes.splitlines(keepends=True)
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line))
        self.bom = 3 if self.bytes.startswith(b"\xef\xbb\xbf") else 0
        self.parents = {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}

    @property
    def text(self):
        return self.bytes.decode("utf-8")

    @property
    def newline(self):
        return "\r\n" if self.lines and self.lines[0].endswith(b"\r\n") else "\n"

    def offset(self, line, column):
        return self.starts[line - 1] + column + (self.bom if line == 1 else 0)

    def span(self, node):
        return self.offset(node.lineno, node.col_offset), self.offset(node.end_lineno, node.end_col_offset)

    def of(self, node):
        start, end = self.span(node)
        return self.bytes[start:end].decode("utf-8")

    def statement(self, line):
        """The innermost statement with that line; of one with a body only its head counts. None for none."""
        found = None
        for node in ast.walk(self.tree):
            if isinstance(node, ast.stmt) and node.lineno <= line <= last_line_of_head(node):
                if found is None or node.lineno >= found.lineno:
                    found = node
        return found

    def enclosing(self, node, kinds):
        """The innermost node around `node` of one of these kinds; None for none."""
        node = self.parents.get(node)
        while node is not None and not isinstance(node, kinds):
            node = self.parents.get(node)
        return node

    def function(self, node):
        return self.enclosing(node, (ast.FunctionDef, ast.AsyncFunctionDef))

    def class_of(self, node):
        return self.enclosing(node, ast.ClassDef)

    def positional(self, function):
        """Names of the parameters that a call may give by place, without a method's self."""
        names = [each.arg for each in function.args.posonlyargs + function.args.args]
        return names[1:] if self.class_of(function) is not None and names[:1] in (["self"], ["cls"]) else names

    def line_at(self, offset):
        """The number of the line in which the byte stands."""
        return self.bytes.count(b"\n", 0, offset) + 1

    def indent(self, statement):
        """The blanks before a statement; None where it does not stand first on its line."""
        before = self.lines[statement.lineno - 1][: statement.col_offset]
        return before.decode("utf-8") if not before.strip() else None


def names_for_torch(tree):
    """What the file calls torch, if not torch."""
    imports = [alias for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    return sorted({alias.asname for alias in imports if alias.name == "torch" and alias.asname} - {"torch"})


def names_of_module(source, before=None):
    """What the module itself binds, up to a line."""
    found = set()
    todo = list(source.tree.body)
    while todo:
        node = todo.pop()
        if before is not None and getattr(node, "lineno", 0) >= before:
            continue
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.alias):
            found.add((node.asname or node.name).split(".")[0])
        if not isinstance(node, (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            todo += ast.iter_child_nodes(node)
    return found


def with_torch_by_its_name(tree):
    """`import torch as th`: in the tree th is torch, so that whoever looks for torch.zeros finds th.zeros. The text keeps its word."""
    others = names_for_torch(tree)
    for node in ast.walk(tree) if others else ():
        if isinstance(node, ast.Name) and node.id in others:
            node.id = "torch"
    return tree


def last_line_of_head(statement):
    body = getattr(statement, "body", None)
    if isinstance(body, list) and body:
        return max(statement.lineno, body[0].lineno - 1)
    return statement.end_lineno


def head(statement):
    """The expressions that the statement itself evaluates: not those of the statements in its body."""
    todo = [statement]
    while todo:
        node = todo.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.stmt, ast.excepthandler)):
                continue
            if isinstance(child, ast.expr):
                yield child
            todo.append(child)


def of_scope(scope):
    """The nodes of a function or a module, without those of the functions and classes in it."""
    todo = list(scope.body)
    while todo:
        node = todo.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        yield node
        todo += ast.iter_child_nodes(node)


def same(left, right):
    """Two expressions that say the same, whatever their quotes and blanks."""
    return ast.dump(left) == ast.dump(right)


def parsed(text):
    """An expression; None for what is none."""
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError):
        return None


def last_name(node):
    """`to` of `x.to`, `f` of `f`; None for what has no name."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else None


def dotted(node):
    """`torch.cuda.device` as a string; None for what is not only names and dots."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        before = dotted(node.value)
        return before and f"{before}.{node.attr}"
    return None


def keyword(call, name):
    return next((each for each in call.keywords if each.arg == name), None)
