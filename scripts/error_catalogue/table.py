"""The catalogue's messages as libdevtrace.so knows them: those that programs provoke."""

import re
from functools import cache

from . import catalogue

TABLE = catalogue.TOP / "tracker/refusals/catalogued_messages.inc"
PATTERNS = TABLE.with_name("patterns.inc")
HEAD = """// Written by `scripts/device-errors table --write` from tests/workloads/device_errors: the beginnings of messages that are
// raised because of where something lies. A part of patterns.inc.
"""
HOLE = "…"
LONGEST = 160  # characters of a message that tell it from others
# A text that says less than this could be anybody's.
SHORTEST = 20
# The dispatcher has other reasons for these, too: what lacks a kernel is told apart by its operands.
AMBIGUOUS = ("Could not run '", "CUDA error", "Expected a '")


def beginning(text: str) -> str:
    cut = text[:LONGEST].rstrip()
    return cut.removesuffix(HOLE).rstrip() if text.endswith(HOLE) else cut


@cache
def known() -> list[re.Pattern]:
    """Known refusals of any values: a row whose holes must hold devices leaves the message with others to the catalogue."""
    texts = re.findall(r'^PATTERN\(known, "((?:[^"\\]|\\.)*)"', PATTERNS.read_text(encoding="utf-8"), re.MULTILINE)
    whole = [text.replace('\\"', '"') for text in texts if "{" not in text.replace("{}", "")]
    return [re.compile(".*?".join(map(re.escape, text.split("{}")))) for text in whole]


def messages() -> list[str]:
    provoked = {program.row for program in catalogue.programs()}
    found = set()
    for row in catalogue.rows():
        text = beginning(row["text"])
        said = max((len(part) for part in text.split(HOLE)), default=0)
        if row["id"] in provoked and said >= SHORTEST and not text.startswith(AMBIGUOUS) and not any(one.match(text) for one in known()):
            found.add(re.sub(r"\{[^}]*\}", HOLE, text).replace(HOLE, "{}"))
    return sorted(found)


def literal(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("?", "\\?") + '"'


def wanted() -> str:
    return HEAD + "".join(f"PATTERN(catalogued, {literal(text)})\n" for text in messages())


def write() -> None:
    TABLE.write_text(wanted(), encoding="utf-8")


def check() -> int:
    if TABLE.read_text(encoding="utf-8") == wanted():
        return 0
    print(f"{TABLE.relative_to(catalogue.TOP)}: error: is not what the catalogue says; scripts/device-errors table --write puts it right")
    return 1
