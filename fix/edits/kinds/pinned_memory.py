"""A loader that pins what it hands out, where the dataset's tensors are on a GPU already."""

import ast

from candidate import Candidate
from source import keyword, last_name


def candidates(failure):
    if not failure.message.startswith("cannot pin '"):
        return
    for source in failure.files():
        for call in ast.walk(source.tree):
            given = keyword(call, "pin_memory") if isinstance(call, ast.Call) else None
            if given is None or (isinstance(given.value, ast.Constant) and not given.value.value):
                continue
            each = Candidate("pin-memory", f"{last_name(call.func) or 'the loader'} pins nothing", 0.9)
            yield each.replace(source, given.value, "False")
