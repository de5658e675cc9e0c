"""Modules of the real package outlines 0.0.34 without the rest of it, which needs an older numpy, a compiler and five more packages.

Its __init__ imports everything; a bare package in its place lets single modules be imported. Of outlines.fsm.fsm the token generator needs
one name, a type for annotations.
"""

import importlib.util
import sys
import types
from pathlib import Path
from typing import NewType

root = Path(importlib.util.find_spec("outlines").origin).parent
for name in ("outlines", "outlines.generate", "outlines.fsm"):
    package = types.ModuleType(name)
    package.__path__ = [str(root.joinpath(*name.split(".")[1:]))]
    sys.modules[name] = package
sys.modules["outlines.fsm.fsm"] = types.ModuleType("outlines.fsm.fsm")
sys.modules["outlines.fsm.fsm"].FSMState = NewType("FSMState", int)
