"""Where the program is, for who reads what nobody computed. Needs no PyTorch; install.cpp imports it when there is something to say."""

import os
import sys
import sysconfig

_FOLDERS = [os.path.dirname(__file__), *(sysconfig.get_paths()[key] for key in ("stdlib", "platstdlib", "purelib", "platlib"))]
_LIBRARIES = tuple({os.path.realpath(folder) + os.sep for folder in _FOLDERS})


def line():
    """The innermost line of the program's own; what it has printed so far is written before anything is said of it."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # closed, or of a class of the program's own
            pass
    frame = sys._getframe(1) if hasattr(sys, "_getframe") else None
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith("<") and not os.path.realpath(file).startswith(_LIBRARIES):
            return f"{file}:{frame.f_lineno}"
        frame = frame.f_back
    return ""
