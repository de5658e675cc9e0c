"""Of a program that is compiled, what its report offers: that in the place of the line that it names.

Nothing here reads C++: the compiler says whether it is some.
"""

import os
from textwrap import dedent

from patch import added, patch, root_of


def is_source(path):
    return path.rpartition(".")[2] in ("cu", "cuh", "c", "cc", "cpp", "cxx", "h", "hh", "hpp", "hxx", "inl", "inc")


def is_compiled(finding):
    """No Python ran where it was found, and the line to change is none of Python's."""
    path = (finding.get("cause") or {}).get("file") or ""
    return not finding.get("python") and is_source(path) and os.path.isfile(path)


def candidates(finding, texts, read, folder):
    cause = finding["cause"]
    after, first = dict(texts), dict(read)
    for edit in [cause, *cause.get("also", [])]:
        path, line, fix = edit.get("file"), edit.get("line"), edit.get("fix")
        if not path or not line or not fix:
            return []
        if path not in first:
            with open(path, encoding="utf-8", newline="") as file:
                first[path] = file.read()
        after[path] = replaced(after.get(path, first[path]), line, fix)
        if after[path] is None:
            return []
    root = root_of(after, folder)
    lines = {path: added(first[path], after[path]) for path in after}
    shown = cause["fix"].split("\n")[0].strip()
    code = dedent("\n".join(text for path in sorted(after) for _, text in added(texts.get(path, first[path]), after[path])))
    return [{
        "kind": "reported-fix",
        "category": "",
        "title": f"as reported: {shown if len(shown) <= 60 else shown[:57] + '...'}",
        "file": cause["file"],
        "line": cause["line"],
        "code": code,
        "names_device": False,
        "identity": code,
        "changed": sum(map(len, lines.values())),
        "texts": after,
        "before": first,
        "patch": patch(first, after, root),
        "folder": root,
        "added": {path: [number for number, _ in each] for path, each in lines.items()},
    }]


def replaced(text, line, fix):
    """The statement that begins in the line gives its place to the fix; None where there is no such line."""
    lines = text.splitlines(keepends=True)
    if not 0 < line <= len(lines):
        return None
    end, opened = line, lines[line - 1]
    while opened.count("(") > opened.count(")") and end < len(lines):
        opened += lines[end]
        end += 1
    indent = opened[: len(opened) - len(opened.lstrip())]
    newline = "\r\n" if opened.endswith("\r\n") else "\n"
    return "".join(lines[: line - 1]) + "".join(indent + each + newline for each in fix.split("\n")) + "".join(lines[end:])
