"""A unified diff as `git apply` takes it."""

import difflib
import os
import re

OWN_MOVE = re.compile(r"\.(?:to|cpu|cuda)\(")


def patch(before, after, folder):
    """From {path: text before} to {path: text after}, with paths relative to `folder`."""
    return "".join(one_file(os.path.relpath(path, folder), before[path], after[path]) for path in sorted(after) if after[path] != before[path])


def root_of(paths, folder):
    """Where a patch of these files starts: the folder, when all lie in it, else their repository, else what they share."""
    shared = os.path.commonpath([os.path.dirname(path) for path in paths])
    if os.path.commonpath([shared, folder]) == os.path.normpath(folder):
        return folder
    above = shared
    while above != os.path.dirname(above):
        if os.path.exists(os.path.join(above, ".git")):
            return above
        above = os.path.dirname(above)
    return shared


def added(before, after):
    """(number, text) of the lines of `after` that a patch adds."""
    found, number = [], 0
    for line in difflib.ndiff(cut(before), cut(after), linejunk=None, charjunk=None):
        if line[0] in " +":
            number += 1
        if line[0] == "+":
            found.append((number, line[2:].rstrip("\r\n")))
    return found


def without_each(before, after):
    """(text without it, its lines) for each place where `after` differs, then for each of its lines, and for each move in them."""
    old, new = cut(before), cut(after)
    for kind, first, last, start, end in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            continue
        yield "".join(new[:start] + old[first:last] + new[end:]), stripped(new[start:end])
        for at in range(start, end):
            line, paired = new[at], end - start == last - first
            was, now = (old[first + at - start], line) if paired else ("".join(old[first:last]), "".join(new[start:end]))
            if end - start > 1 and (paired or kind == "insert"):
                yield "".join(new[:at] + [was] + new[at + 1 :]), stripped([line])
            for begin, behind in moves(line):
                move = line[begin:behind]
                # Else it is the program's own, or one of its own that now goes elsewhere: without it the line would do nothing.
                if was.count(move) < now.count(move) and len(OWN_MOVE.findall(was)) < len(OWN_MOVE.findall(now)):
                    yield "".join(new[:at] + [line[:begin] + line[behind:]] + new[at + 1 :]), [move]


def stripped(lines):
    return [line.rstrip("\r\n") for line in lines]


def moves(line):
    """(begin, end) of each `.to(…)` whose brackets are closed in the line."""
    for match in re.finditer(r"\.to\(", line):
        depth, at = 1, match.end()
        while at < len(line) and depth:
            depth += {"(": 1, ")": -1}.get(line[at], 0)
            at += 1
        if not depth:
            yield match.start(), at


def one_file(name, before, after):
    out = [f"--- a/{name}\n", f"+++ b/{name}\n"]
    lines = list(difflib.unified_diff(cut(before), cut(after), n=3))[2:]
    for line in lines:
        out.append(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n")
    return "".join(out)


def cut(text):
    """At line feeds only: what else Python calls the end of a line is no end for git."""
    return [line for line in re.split(r"(?<=\n)", text) if line]
