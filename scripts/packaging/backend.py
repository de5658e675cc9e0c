"""How pip and `python -m build` build devtrace (PEP 517): a source distribution of what git knows, and the wheel by `make wheel`."""

from __future__ import annotations

import gzip
import io
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

from metadata import PROJECT, TOP, metadata, version


def _date() -> int:
    """As scripts/make-wheel has it: the commit's, so that the same commit gives the same bytes."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    return int(given or subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=TOP, capture_output=True, text=True, check=True).stdout)


def build_sdist(sdist_directory: str, config_settings: object = None) -> str:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=TOP, capture_output=True, text=True)
    if listed.returncode:
        raise SystemExit("devtrace: a source distribution is made in a clone, as it has what git knows")
    name, date = f"{PROJECT['name']}-{version()}", _date()
    written = io.BytesIO()
    # No name and no time of its own in the compressed file's head.
    with gzip.GzipFile("", "wb", 9, written, 0) as compressed, tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as archive:

        def add(path: str, content: bytes, mode: int) -> None:
            entry = tarfile.TarInfo(f"{name}/{path}")
            entry.size, entry.mode, entry.mtime = len(content), mode, date
            archive.addfile(entry, io.BytesIO(content))

        add("PKG-INFO", metadata(PROJECT["license-files"]).encode(), 0o644)
        for path in sorted(filter(None, listed.stdout.split("\0"))):
            file = TOP / path
            if file.is_symlink():
                entry = tarfile.TarInfo(f"{name}/{path}")
                entry.type, entry.linkname, entry.mtime = tarfile.SYMTYPE, os.readlink(file), date
                archive.addfile(entry)
            elif file.exists():  # else it was deleted, and that is not committed yet
                add(path, file.read_bytes(), 0o755 if os.access(file, os.X_OK) else 0o644)
    (Path(sdist_directory) / f"{name}.tar.gz").write_bytes(written.getvalue())
    return f"{name}.tar.gz"


def build_wheel(wheel_directory: str, config_settings: object = None, metadata_directory: str | None = None) -> str:
    """Takes as long as `make wheel`, and needs what that needs."""
    subprocess.run(["make", "wheel"], cwd=TOP, check=True)
    (wheel,) = (TOP / "build/wheel").glob(f"{PROJECT['name']}-{version()}-*.whl")
    shutil.copy(wheel, wheel_directory)
    return wheel.name
