"""What a program says of itself: which row of the catalogue it provokes, and what devtrace has to say of it."""

from dataclasses import dataclass
from collections.abc import Callable


@dataclass(frozen=True)
class Program:
    row: str  # of messages.jsonl
    operation: str  # public name; several, with `|` between them, where each is right
    devices: frozenset[str]
    cut: bool  # PyTorch writes the device's index as a character; of device 0 it ends the text
    run: Callable[[], object]

    @property
    def name(self) -> str:
        return self.run.__name__


PROGRAMS: list[Program] = []


def provokes(row: str, operation: str, *devices: str, cut: bool = False):
    def add(run):
        PROGRAMS.append(Program(row, operation, frozenset(devices), cut, run))
        return run

    return add
