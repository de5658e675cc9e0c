"""Where devtrace's files are: of pip's, of `make install`'s, of a source tree. The library is found relative to the command, as the command finds it."""

import importlib.metadata
import os
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path


class DevtraceError(RuntimeError):
    """Something that devtrace was asked for cannot be had here; the message says what to do."""


def _commands() -> Iterator[str]:
    here = Path(__file__).resolve().parents[1]  # the folder that this package is imported from
    yield os.environ.get("DEVTRACE", "")
    yield str(here / "../../../bin/devtrace")  # PREFIX/lib/devtrace/python
    yield str(here / "../build/devtrace")  # a source tree
    try:
        for file in importlib.metadata.distribution("devtrace").files or ():
            if file.name == "devtrace" and file.parent.name == "bin":
                yield str(file.locate())
    except importlib.metadata.PackageNotFoundError:
        pass
    yield str(Path(sysconfig.get_path("data")) / "bin/devtrace")
    yield shutil.which("devtrace") or ""


def command() -> str:
    """Path of the devtrace command. DEVTRACE in the environment outranks what was installed with this package; PATH comes last."""
    for candidate in _commands():
        if candidate and os.access(candidate, os.X_OK):
            return os.path.realpath(candidate)
    raise DevtraceError("devtrace: its command is neither installed with this package nor on PATH; say where it is in DEVTRACE")


def plain_environment() -> dict[str, str]:
    """This process's environment for a command of devtrace's own, which nothing that is preloaded here is to be in."""
    return {key: value for key, value in os.environ.items() if key not in ("LD_PRELOAD", "DEVTRACE_OPTIONS")}


def library() -> str:
    """Path of libdevtrace.so."""
    folder = Path(command()).parent
    for candidate in (folder / "libdevtrace.so", folder.parent / "lib/devtrace/libdevtrace.so"):
        if candidate.exists():
            return str(candidate)
    raise DevtraceError(f"devtrace: there is no libdevtrace.so beside {folder / 'devtrace'}")


def version() -> str:
    """The command's, which is that of all that came with it."""
    done = subprocess.run([command(), "--version"], env=plain_environment(), stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.split()[1]
