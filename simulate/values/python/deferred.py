"""Kernels that are launched as on hardware and then computed here; what cannot be is listed as not computed."""

import functools
import os
import sys

_defer = _give_up = _unwatched = None


def install(defer, give_up, unwatched):
    """Of install.cpp."""
    global _defer, _give_up, _unwatched
    _defer, _give_up, _unwatched = defer, give_up, unwatched


def then(real, after):
    """The launching function with after(…) behind it, without a frame of ours in between: that is the program's line, and its tensors' names."""
    return functools.partial(_defer, real, after)


def attempt(name, compute):
    """Whether it was computed."""
    try:
        _unwatched(compute)
    except Exception as error:
        _give_up()
        if os.environ.get("DEVTRACE_SIM_VERBOSE") == "1":
            print(f"devtrace: kernel {name} is not computed: {type(error).__name__}: {error}", file=sys.stderr)
        return False
    return True
