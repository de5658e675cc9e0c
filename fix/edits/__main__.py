"""Asked by `devtrace fix`, run by the interpreter of the user's program: python edits QUESTION ANSWER, two files of JSON.

question  {"finding": of a log, "texts": {path: text of a file that is edited already}, "before": {path: its text when it was first read},
          "folder": where patches start}; without a finding the answer is these texts with one change less, once for each
answer    {"candidates": [{"kind", "category", "title", "file", "line", "code", "names_device", "names_new_device", "identity", "asks",
          "alternatives", "at_use", "fallback", "to_cpu", "changed", "texts": {path: new text}, "before": {path: text when it was first read},
          "patch": from there to the new text, in "folder", "added": {path: [lines of the new text]}}]}, the likeliest first
"""

import ast
import json
import os
import sys
from textwrap import dedent

import compiled
from kinds import CATEGORIES, MAKERS, any_expression
from patch import added, patch, root_of, without_each
from program import Failure, Program
from standing import at_use, names_new_device


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        question = json.load(file)
    edited = question.get("texts") or {}, question.get("before") or {}
    folder = question.get("folder") or os.getcwd()
    finding = absolute(question["finding"], folder)
    answer = {"candidates": candidates(finding, *edited, folder) if finding else smaller(*edited, folder)}
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        json.dump(answer, file)


def absolute(record, folder):
    """With whole paths: what `runpy` or `exec` runs is called as it was given, by a launcher of ranks just by its name."""
    if isinstance(record, list):
        return [absolute(each, folder) for each in record]
    if not isinstance(record, dict):
        return record
    whole = {key: absolute(value, folder) for key, value in record.items()}
    if isinstance(file := whole.get("file"), str) and os.path.isfile(path := os.path.join(folder, file)):
        whole["file"] = path
    return whole


def candidates(finding, texts, read, folder):
    if compiled.is_compiled(finding):
        return compiled.candidates(finding, texts, read, folder)
    failure, cause = Failure(finding, Program(texts)), finding.get("cause") or {}
    made = []
    for maker in MAKERS:
        made += [each for each in maker(failure) if each is not None]
    found, seen = [], {}
    for each in sorted(made, key=lambda one: one.prior - spoken_for(one, cause)):
        new = each.texts()
        key = json.dumps(new, sort_keys=True) if new else None
        if new is None or any("site-packages" in path for path in new):
            continue
        if key in seen:  # made by another kind as well: each knows one thing about it
            seen[key]["at_use"] &= at_use(failure, each)
            continue
        seen[key] = described(failure, each, new, texts, read, folder)
        found.append(seen[key])
    return found


def smaller(texts, first, folder):
    found, seen = [], set()
    for path in sorted(texts):
        if compiled.is_source(path):
            continue
        for text, lines in without_each(first[path], texts[path]):
            if (path, text) in seen:
                continue
            seen.add((path, text))
            try:
                ast.parse(text.encode("utf-8"))
            except (SyntaxError, ValueError):
                continue
            after = {**texts, path: text}
            found.append({"kind": "", "file": path, "code": dedent("\n".join(lines)), **patched(first, after, folder)})
    return found


def spoken_for(candidate, cause):
    """How much sooner it is tried because the verdict means it: the kind of mistake, and the line."""
    if cause.get("confidence") not in ("high", "medium"):
        return 0.0
    source, line = candidate.place()
    reported = candidate.kind == "reported-fix" and cause.get("repairs") == "cause"
    kind = reported or (CATEGORIES[candidate.kind] != "" and CATEGORIES[candidate.kind] == cause.get("category"))
    return 0.7 * kind + 0.7 * (source.path == cause.get("file") and line == cause.get("line"))


def described(failure, candidate, new, texts, read, folder):
    source, line = candidate.place()
    cause = failure.finding.get("cause") or {}
    unnumbered = cause.get("repairs") == "cause" and cause.get("category") == CATEGORIES["set-device"]
    after = {**texts, **new}
    # What was read, not what lies there now: the file may have been saved meanwhile, and a patch would take that back.
    first = {path: read[path] if path in read else failure.program.source(path).text for path in after}
    before = {path: texts.get(path, first[path]) for path in new}
    code = [text for path in sorted(new) for _, text in added(before[path], new[path])]
    return {
        "kind": candidate.kind,
        "category": CATEGORIES[candidate.kind],
        "title": candidate.title,
        "file": source.path,
        "line": line,
        "code": dedent("\n".join(code)),
        "names_device": candidate.names_device,
        "identity": candidate.identity(code),
        "asks": candidate.asks(),
        "alternatives": candidate.alternatives(),
        "names_new_device": names_new_device(candidate, unnumbered),
        "at_use": at_use(failure, candidate),
        "fallback": candidate.kind == "move-at-use" and candidate.prior >= any_expression.PRIOR,
        "to_cpu": candidate.wanted == "cpu" or any('"cpu"' in text or ".cpu(" in text for _, _, _, text in candidate.edits),
        **patched(first, after, folder),
    }


def patched(first, after, folder):
    root = root_of(after, folder)
    numbers = {path: [number for number, _ in added(first[path], after[path])] for path in after}
    return {
        "changed": sum(len(each) for each in numbers.values()),
        "texts": after,
        "before": first,
        "patch": patch(first, after, root),
        "folder": root,
        "added": numbers,
    }


main()
