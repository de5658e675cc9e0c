"""Every CPython on this machine, for tests that compare what is read of it with what it says itself.

To try another version, put its interpreter on PATH as python3.N or into pyenv, or let scripts/get/pythons bring it."""

import glob
import os
import shutil
import subprocess
import sys

import pytest

# A row each in tracker/python/layout.cpp and object_layout.cpp.
SUPPORTED = range(9, 16)
FREE_THREADED = range(13, 16)
CACHE = os.path.join(os.path.dirname(__file__), "..", "..", ".cache")
# Where scripts/get/pythons puts them.
FETCHED = os.environ.get("DEVTRACE_PYTHONS") or os.path.join(CACHE, "pythons")

ASK = (
    "import os, platform, sys, sysconfig;"
    "print(platform.python_implementation(), sys.version_info[0], sys.version_info[1],"
    " int(bool(sysconfig.get_config_var('Py_GIL_DISABLED'))), os.path.realpath(sys.executable))"
)


def pyenv_root() -> str:
    if "PYENV_ROOT" in os.environ:
        return os.environ["PYENV_ROOT"]
    if shutil.which("pyenv"):
        return subprocess.run(["pyenv", "root"], capture_output=True, text=True).stdout.strip()
    return os.path.expanduser("~/.pyenv")


def interpreters() -> dict[str, tuple[int, bool]]:
    """Each different CPython 3 found: its path, and its minor version and whether it is free-threaded."""
    names = ["python3", *(f"python3.{minor}{free}" for minor in range(6, 20) for free in ("", "t"))]
    candidates = [os.path.join(folder, name) for folder in os.get_exec_path() for name in names]
    candidates += glob.glob(os.path.join(pyenv_root(), "versions", "*", "bin", "python"))
    candidates += glob.glob(os.path.join(FETCHED, "*", "bin", "python"))
    candidates.append(sys.executable)
    found = {}
    for candidate in candidates:
        if not os.access(candidate, os.X_OK) or "shims" in candidate:
            continue
        answer = subprocess.run([candidate, "-I", "-c", ASK], capture_output=True, text=True).stdout.split(None, 4)
        if len(answer) == 5 and answer[:2] == ["CPython", "3"]:
            found[answer[4].strip()] = int(answer[2]), answer[3] == "1"
    return found


FOUND = interpreters()
# One interpreter a minor version and place: a patch release is a layout of its own to be wrong about.
READABLE = sorted((minor, path) for path, (minor, free) in FOUND.items() if minor in SUPPORTED and not free)
READABLE_FREE_THREADED = sorted((minor, path) for path, (minor, free) in FOUND.items() if minor in FREE_THREADED and free)
OTHERS = sorted(
    (minor, path) for path, (minor, free) in FOUND.items() if minor not in (FREE_THREADED if free else SUPPORTED)
)


def parameters() -> list:
    every = []
    for found, wanted, mark in ((READABLE, SUPPORTED, ""), (READABLE_FREE_THREADED, FREE_THREADED, "t")):
        every += [pytest.param(path, id=f"3.{minor}{mark}-{index}") for index, (minor, path) in enumerate(found)]
        for minor in set(wanted) - {minor for minor, _ in found}:
            reason = f"no CPython 3.{minor}{mark} on PATH, in pyenv ({pyenv_root()}) or from scripts/get/pythons"
            every.append(pytest.param(None, id=f"3.{minor}{mark}", marks=pytest.mark.skip(reason=reason)))
    return every


PARAMETERS = parameters()

# Environments of `make matrix`.
WITH_PYTORCH_WITHOUT_GIL = [
    pytest.param(os.path.abspath(path), id=path.split(os.sep)[-3]) for path in sorted(glob.glob(os.path.join(CACHE, "matrix", "3.*t-*", "bin", "python")))
] or [pytest.param(None, id="none", marks=pytest.mark.skip(reason="no free-threaded Python with a PyTorch (scripts/get/pythons 3.13t, make matrix PAIRS=3.13t-2.11.0)"))]
