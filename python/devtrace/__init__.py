"""devtrace inside a Python program: which tensor lies on the wrong device, where it came from, and the line to change.

    import devtrace

    devtrace.start()                 # watch this process from here on, before or after `import torch`
    ...
    devtrace.last()                  # the latest finding: operands, cause, fix

In a notebook `%load_ext devtrace` shows each finding under its cell. What pip installs besides is the command
(`python -m devtrace`). Devices are written as PyTorch writes them: "cpu", "cuda:1".
"""

import sys

if sys.version_info < (3, 9):  # noqa: UP036  where no pip has looked
    raise ImportError("devtrace: the package needs Python 3.9 or later; `devtrace run` does not")

from . import installation
from .finding import Cause, Edit, Finding, Frame, Operand
from .installation import DevtraceError, command
from .placement import Location, assert_placement, where
from .session import Watched, findings, last, log_path, report, start, stop, watch

__all__ = ["Cause", "DevtraceError", "Edit", "Finding", "Frame", "Location", "Operand", "Watched", "assert_placement", "command", "findings", "last",
           "log_path", "report", "start", "stop", "watch", "where"]  # fmt: skip

__version__: str


def __getattr__(name: str) -> str:
    if name == "__version__":  # the command is asked, and only by who asks
        return installation.version()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def load_ipython_extension(shell: object) -> None:
    """`%load_ext devtrace`."""
    from . import notebook

    notebook.load(shell)


def unload_ipython_extension(shell: object) -> None:
    """`%unload_ext devtrace`."""
    from . import notebook

    notebook.unload(shell)
