"""What the report itself offers: its line in the place of the one that it names."""

from candidate import Candidate


def candidates(failure):
    cause = failure.finding.get("cause") or {}
    path, line, fix = cause.get("file"), cause.get("line"), cause.get("fix")
    source = failure.program.source(path) if path and line and fix else None
    if source is None or not 0 < line <= len(source.lines):
        return
    old = source.lines[line - 1].decode("utf-8")
    indent = old[: len(old) - len(old.lstrip())]
    new = source.newline.join(indent + each for each in fix.split("\n"))
    shown = fix.split("\n")[0].strip()
    shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
    each = Candidate("reported-fix", f"as reported: {shown}", 0.8, names_device='"cuda:' in fix)
    each.edits.append((source, source.starts[line - 1], source.starts[line - 1] + len(old.rstrip("\r\n").encode()), new))
    yield each
