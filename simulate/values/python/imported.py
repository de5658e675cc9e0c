"""Modules that are changed once they are imported; none is imported for that."""

import functools
import os
import sys
from importlib.machinery import PathFinder


def change(changes):
    """By name, the function that is given the module: now where it is there, else at the end of its import."""
    there = {name: module for name in changes if (module := sys.modules.get(name)) and not getattr(module.__spec__, "_initializing", False)}
    for name, module in there.items():
        attempt(changes[name], module)
    missing = {name: function for name, function in changes.items() if name not in there}
    if missing:
        sys.meta_path.insert(0, Finder(missing))


def attempt(function, module):
    """The program's import goes on whatever we do."""
    try:
        function(module)
    except Exception as error:
        if os.environ.get("DEVTRACE_SIM_VERBOSE") == "1":
            print(f"devtrace: {module.__name__} is not watched: {type(error).__name__}: {error}", file=sys.stderr)


class Finder:
    """In sys.meta_path until the last of its modules is there."""

    def __init__(self, changes):
        self.changes = changes

    def find_spec(self, name, path=None, target=None):
        if name not in self.changes:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and hasattr(spec.loader, "__dict__"):
            spec.loader.exec_module = functools.partial(self.execute, spec.loader)
        return spec

    def execute(self, loader, module):
        del loader.exec_module  # the loader is as it was
        loader.exec_module(module)
        function = self.changes.pop(module.__name__, None)
        if not self.changes and self in sys.meta_path:
            sys.meta_path.remove(self)
        if function is not None:
            attempt(function, module)
