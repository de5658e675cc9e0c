"""What the report itself offers: its line in the place of the one that it names."""

import re

from candidate import Candidate
from source import last_line_of_head, names_of_module

from kinds.registration import nn_name


def candidates(failure):
    cause = failure.finding.get("cause") or {}
    fix = cause.get("fix") or ""
    shown = fix.split("\n")[0].strip()
    shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
    each = Candidate("reported-fix", f"as reported: {shown}", 0.8, names_device='"cuda:' in fix)
    for edit in [cause, *cause.get("also", [])]:
        each.edits += replaced(failure, edit.get("file"), edit.get("line"), edit.get("fix"))
    if each.edits:
        yield each


def replaced(failure, path, line, fix):
    source = failure.program.source(path) if path and line and fix else None
    if source is None or not 0 < line <= len(source.lines):
        return []
    old = source.lines[line - 1].decode("utf-8")
    indent = old[: len(old) - len(old.lstrip())]
    fix = as_the_file_says(source, fix)
    new = source.newline.join(indent + each for each in fix.split("\n"))
    last = last_line(source, line, fix)
    end = source.starts[last - 1] + len(source.lines[last - 1].decode("utf-8").rstrip("\r\n").encode())
    return [(source, source.starts[line - 1], end, new)]


def last_line(source, line, fix):
    """Of what the fix replaces: the statement that begins in the line; of a part of one as many lines as the fix has."""
    statement = source.statement(line)
    if statement is not None and statement.lineno == line:
        return last_line_of_head(statement)
    return min(line + fix.count("\n"), len(source.lines))


def as_the_file_says(source, fix):
    """The report says torch.nn.ModuleList; a file with `from torch import nn` has no torch."""
    nn = nn_name(source)
    return fix if nn is None or "torch" in names_of_module(source) else re.sub(r"\btorch\.nn\.", f"{nn}.", fix)
