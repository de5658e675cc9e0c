"""Every CPython on this machine, for tests that compare what is read of it with what it says itself.

To try another version, put its interpreter on PATH as python3.N or into pyenv."""

import glob
import os
import shutil
import subprocess
import sys

import pytest

SUPPORTED = range(9, 14)  # CPython 3.9 to 3.13: a row each in tracker/python/layout.cpp and object_layout.cpp

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
    names = ["python3", *(f"python3.{minor}" for minor in range(6, 20)), "python3.13t", "python3.14t"]
    candidates = [os.path.join(folder, name) for folder in os.get_exec_path() for name in names]
    candidates += glob.glob(os.path.join(pyenv_root(), "versions", "*", "bin", "python"))
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
OTHERS = sorted((minor, path) for path, (minor, free) in FOUND.items() if minor not in SUPPORTED or free)
MISSING = [minor for minor in SUPPORTED if minor not in [m for m, _ in READABLE]]
PARAMETERS = [pytest.param(path, id=f"3.{minor}-{index}") for index, (minor, path) in enumerate(READABLE)]
PARAMETERS += [
    pytest.param(
        None, id=f"3.{minor}", marks=pytest.mark.skip(reason=f"no CPython 3.{minor} on PATH or in pyenv ({pyenv_root()})")
    )
    for minor in MISSING
]
