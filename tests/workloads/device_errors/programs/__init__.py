"""Small programs that each provoke one message of the catalogue, by what they use of PyTorch and its libraries."""

import importlib
import pkgutil

from ..provokes import PROGRAMS, Program


def every_program() -> list[Program]:
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    names = [program.name for program in PROGRAMS]
    assert len(names) == len(set(names)), f"twice: {sorted({name for name in names if names.count(name) > 1})}"
    return PROGRAMS
