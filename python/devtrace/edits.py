"""A fix put into a text: what a cause's fix looks like in a notebook's cell or in a file."""

from __future__ import annotations

import ast


def _head_end(statement: ast.stmt) -> int:
    body: list[ast.stmt] = getattr(statement, "body", [])
    return body[0].lineno - 1 if body and body[0].lineno > statement.lineno else statement.end_lineno or statement.lineno


def statement_end(text: str, line: int) -> int:
    """The last line of the innermost statement that begins at `line`, or of the head of one that has a body. Lines are counted from 1.

    SyntaxError where the text is no Python.
    """
    ends = [_head_end(node) for node in ast.walk(ast.parse(text)) if isinstance(node, ast.stmt) and node.lineno == line]
    return min(ends, default=line)


def replaced(text: str, first: int, last: int, fix: str) -> str:
    """The text with lines `first` to `last` replaced by `fix`, indented like the first. IndexError where there is no such line."""
    lines = text.split("\n")
    old = lines[first - 1]
    indent = old[: len(old) - len(old.lstrip())]
    return "\n".join([*lines[: first - 1], *(indent + each for each in fix.split("\n")), *lines[last:]])
