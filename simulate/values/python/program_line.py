"""Where the program is, for who reads what nobody computed. Needs no PyTorch; install.cpp imports it when there is something to say."""

import os
import sys
import sysconfig
import threading

_FOLDERS = [os.path.dirname(__file__), *(sysconfig.get_paths()[key] for key in ("stdlib", "platstdlib", "purelib", "platlib"))]
_LIBRARIES = tuple({os.path.realpath(folder) + os.sep for folder in _FOLDERS})
_INSTALLED = os.sep + "site-packages" + os.sep, os.sep + "dist-packages" + os.sep  # the user's, and those of PYTHONPATH


def line():
    """The innermost line of the program's own; what it has printed so far is written before anything is said of it.

    Of a thread that runs a library's code alone, as the one that pins a DataLoader's batches, the main thread's.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # closed, or of a class of the program's own
            pass
    found = _line_of(sys._getframe(1)) if hasattr(sys, "_getframe") else ""
    if found or not hasattr(sys, "_current_frames"):
        return found
    found = _line_of(sys._current_frames().get(threading.main_thread().ident))
    return f"a thread beside {found}" if found else ""


def _line_of(frame):
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith("<") and not any(folder in file for folder in _INSTALLED) and not os.path.realpath(file).startswith(_LIBRARIES):
            return f"{file}:{frame.f_lineno}"
        frame = frame.f_back
    return ""
