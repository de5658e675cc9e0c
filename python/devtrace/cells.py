"""Cells of a notebook: which of Python's files and lines stand in which one, and a cell's text with a fix in it."""

from __future__ import annotations

import ast
import contextlib
import linecache
import os
import re
from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from typing import Any

from .edits import replaced, statement_end

TIMED = ("<timed exec>", "<timed eval>")  # as what `%time` and `%%time` run is called, of whichever cell


class Cells:
    """The cells of one shell, by IPython's own account."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._defining = ""  # what was timed and defined functions: they keep its lines

    def number(self, file: str) -> int | None:
        """4 of the cell In[4]; None where the file is none."""
        named = getattr(self._shell.compile, "format_code_name", None)  # not in IPython 7, which Colab has
        label = named(file) if named else None
        found = re.search(r"In\[(\d+)\]", label[1]) if label else re.match(r"<ipython-input-(\d+)-", file)
        return int(found[1]) if found else None

    def typed(self, number: int) -> list[str]:
        """The lines of a cell as they were typed, with its magics."""
        texts = self._shell.history_manager.input_hist_raw
        return texts[number].rstrip("\n").split("\n") if 0 < number < len(texts) else []

    def begin(self, text: str) -> None:
        """Notes what the cell that begins to run gives to `%time`: IPython compiles it without keeping its lines."""
        if "%time" not in text:
            return
        timed = [self._shell.transform_cell(each) for each in _timed(self._shell.transform_cell(text))]
        source = timed[0] if len(timed) == 1 else ""
        # A function of an earlier one has the same file name: its lines must not be taken for these.
        if self._defining not in ("", source):
            source = ""
        elif re.search(r"\b(def|class|lambda)\b", source):
            self._defining = source
        for name in TIMED:
            linecache.cache.pop(name, None)
            if source:
                linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)

    def inner(self, file: str, running: int | None) -> bool:
        """Whether a magic of the running cell has made `file`."""
        return running is not None and (file in TIMED or (self.number(file) or 0) > running)

    def place(self, file: str, line: int, running: int | None) -> tuple[int, int] | None:
        """The cell and its line where `file` has `line`; None where that is no cell's. `running`: the cell that was run.

        What a cell's magic runs has a file of its own; its lines are looked for in the cell as it was typed.
        """
        if not self.inner(file, running):
            number = self.number(file)
            return None if number is None else (number, line)
        assert running is not None
        of_typed = _aligned(linecache.getlines(file), self.typed(running)).get(line)
        return (running, of_typed) if of_typed else None

    def repaired(self, number: int, edits: Iterable[tuple[str, int, str]]) -> str:
        """A cell's text with fixes: of Python's files and lines, as `place` finds them there. Empty where one cannot be put in."""
        lines = self.typed(number)
        text = "\n".join(lines)
        places = []
        for file, line, fix in edits:
            known = linecache.getlines(file)
            aligned = _aligned(known, lines)
            # Python's text is the one that parses: of magics it has calls.
            with contextlib.suppress(SyntaxError):
                last = statement_end("".join(known), line)
                where = [aligned.get(each) for each in range(line, last + 1)]
                if (first := where[0]) and where == [*range(first, first + len(where))]:
                    magic = _magic_before(lines[first - 1], known[line - 1])
                    if not magic or "\n" not in fix:
                        places.append((first, first + len(where) - 1, magic + fix))
                        continue
            return ""
        for first, last, fix in sorted(places, reverse=True):
            text = replaced(text, first, last, fix)
        return text

    def named(self, text: str, files: set[str], running: int | None) -> str:
        """The text, with the cells' own names in the place of their files'."""
        for file in files:
            short = re.escape(os.path.basename(file))

            def name(match: re.Match[str], file: str = file) -> str:
                found = self.place(file, int(match[1]), running)
                return f"Cell In[{found[0]}], line {found[1]}" if found else match[0]

            text = re.sub(rf"[^\s(]*{short}:(\d+)", name, text)
        return text


def _timed(transformed: str) -> Iterator[str]:
    """What a cell gives to `%time` and `%%time`."""
    with contextlib.suppress(SyntaxError):
        for node in ast.walk(ast.parse(transformed)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("run_line_magic", "run_cell_magic"):
                values = [each.value for each in node.args if isinstance(each, ast.Constant)]
                if values[:1] == ["time"]:
                    yield str(values[-1])


def _aligned(known: list[str], typed: list[str]) -> dict[int, int]:
    """Lines of what Python knows, from 1, to those of the text as it was typed: magics are other lines there, and may be more of them."""
    plain, shown = [each.strip() for each in known], [each.strip() for each in typed]
    if len(plain) == len(shown):
        return {line: line for line in range(1, len(plain) + 1)}
    lines = {}
    for begin, of_typed, size in SequenceMatcher(None, plain, shown, autojunk=False).get_matching_blocks():
        lines.update({begin + each + 1: of_typed + each + 1 for each in range(size)})
    if len(plain) == 1 and not lines:  # behind `%time`
        lines.update((1, line) for line, text in enumerate(shown, 1) if text.startswith("%") and text.endswith(" " + plain[0]))
    return lines


def _magic_before(typed: str, known: str) -> str:
    """`%time ` of `%time x = f()`, of which Python knows `x = f()`."""
    return typed.strip()[: -len(known.strip())] if typed.startswith("%") and typed.rstrip().endswith(known.strip()) else ""
