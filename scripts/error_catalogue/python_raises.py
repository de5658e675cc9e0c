"""Every place of a Python file that raises with a message."""

import ast
import re

from .raises import HOLE, Raise, tidy

# Functions that raise what one of their arguments says, if another is false: argument of the condition, of the message.
CHECKS = {
    "torch._check": (0, 1),
    "torch._check_value": (0, 1),
    "torch._check_type": (0, 1),
    "torch._check_index": (0, 1),
    "torch._check_not_implemented": (0, 1),
    "torch._check_with": (1, 2),
    "torch._check_tensor_all": (0, 1),
    "_check": (0, 1),
    # DistributedDataParallel's, which also writes it to its own log
    "self._log_and_throw": (None, 1),
}
# Methods of a string, and functions around one, that keep its text.
KEEPS_TEXT = {"format", "join", "strip", "dedent", "replace", "cleandoc"}


class Finder(ast.NodeVisitor):
    def __init__(self, file: str):
        self.file = file
        self.scope: list[str] = []
        self.conditions: list[str] = []
        self.strings: list[dict[str, ast.expr]] = [{}]  # of each scope: names that hold an expression
        self.found: list[Raise] = []

    def in_scope(self, node):
        self.scope.append(node.name)
        self.strings.append({})
        outer, self.conditions = self.conditions, []
        self.generic_visit(node)
        self.conditions = outer
        self.strings.pop()
        self.scope.pop()

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = in_scope

    def visit_Assign(self, node):
        if len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            self.strings[-1][node.targets[0].id] = node.value
        self.generic_visit(node)

    def visit_If(self, node):
        self.conditions.append(ast.unparse(node.test))
        for child in [node.test, *node.body]:
            self.visit(child)
        for child in node.orelse:
            self.visit(child)
        self.conditions.pop()

    def visit_Raise(self, node):
        if isinstance(node.exc, ast.Call) and node.exc.args:
            self.add(node.exc.args[0], self.conditions, name_of(node.exc.func))
        self.generic_visit(node)

    def visit_Assert(self, node):
        if node.msg:
            self.add(node.msg, [ast.unparse(node.test)], "AssertionError")
        self.generic_visit(node)

    def visit_Call(self, node):
        places = CHECKS.get(ast.unparse(node.func)) if isinstance(node.func, (ast.Name, ast.Attribute)) else None
        if places and len(node.args) > places[1]:
            condition = self.conditions if places[0] is None else [ast.unparse(node.args[places[0]])]
            self.add(node.args[places[1]], condition, "RuntimeError" if places[0] is not None else name_of(node.args[0]))
        self.generic_visit(node)

    def add(self, message: ast.expr, conditions: list[str], exception: str):
        for text in self.texts(message):
            text = tidy(text)
            if re.search("[a-z]{2}", text):
                self.found.append(Raise(text, " and ".join(conditions[-2:]), exception, self.file, ".".join(self.scope)))

    def texts(self, node: ast.expr | None, depth: int = 0) -> list[str]:
        """What the expression can say."""
        if depth > 6 or node is None:
            return [HOLE]
        again = lambda child: self.texts(child, depth + 1)
        if isinstance(node, ast.Constant):
            return [node.value if isinstance(node.value, str) else str(node.value)]
        if isinstance(node, ast.JoinedStr):
            return ["".join(part.value if isinstance(part, ast.Constant) else HOLE for part in node.values)]
        if isinstance(node, ast.Lambda):
            return again(node.body)
        if isinstance(node, ast.IfExp):
            return [*again(node.body), *again(node.orelse)]
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return [left + right for left in again(node.left) for right in again(node.right)][:4]
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            return [re.sub(r"%[-+ #0-9.]*[a-zA-Z]", HOLE, text) for text in again(node.left)]
        if isinstance(node, ast.Name):
            known = next((strings[node.id] for strings in reversed(self.strings) if node.id in strings), None)
            return again(known)
        if isinstance(node, ast.Call) and isinstance(node.func, (ast.Attribute, ast.Name)):
            return self.texts_of_call(node, again)
        return [HOLE]

    def texts_of_call(self, node: ast.Call, again) -> list[str]:
        name = name_of(node.func).split(".")[-1]
        if name not in KEEPS_TEXT:
            return [HOLE]
        if name == "dedent" or name == "cleandoc":
            return again(node.args[0]) if node.args else [HOLE]
        texts = again(node.func.value) if isinstance(node.func, ast.Attribute) else [HOLE]
        if name == "format":
            return [re.sub(r"\{[^{}]*\}", HOLE, text) for text in texts]
        if name == "join":
            return [HOLE]
        return texts


def name_of(node: ast.expr) -> str:
    return ast.unparse(node) if isinstance(node, (ast.Name, ast.Attribute)) else ""


def raises_of(source: str, file: str) -> list[Raise]:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return []
    finder = Finder(file)
    finder.visit(tree)
    return finder.found
