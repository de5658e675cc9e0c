"""What a search of a source yields: one place that raises, and its message with holes where values stand."""

import re
from dataclasses import dataclass

HOLE = "\0"


@dataclass(frozen=True)
class Raise:
    message: str  # HOLE for each value
    condition: str  # source text of what decides about it, for the choice of what is about placement
    exception: str
    file: str  # relative to the source's folder
    function: str


def tidy(message: str) -> str:
    """One hole where several follow each other, nothing at the ends that no reader would search for."""
    message = re.sub(f"{HOLE}+", HOLE, message)
    return re.sub(r"[ \t]*\n[ \t]*", "\n", message).strip(" \n\t")


def pieces(message: str) -> list[str]:
    """The literal pieces, as they stand in a library's strings."""
    return [piece for piece in message.split(HOLE) if piece]


def pattern(message: str) -> str:
    """A regular expression for `re.search` in the exception's text, white space counted as one."""
    parts = [r"\s+".join(re.escape(word) for word in re.split(r"\s+", piece)) for piece in message.split(HOLE)]
    return "(?s:.*?)".join(parts)


def shown(message: str) -> str:
    return re.sub(r"\s+", " ", message.replace(HOLE, "…")).strip()
