"""A root folder as a container has that was made without a distribution: Python, PyTorch, devtrace and the libraries that these are linked with.

No shell is in it, no other program, no compiler, no /etc. It is entered by chroot in a mount namespace of its own. Large folders are
mounted into it, so that nothing of them is copied and nothing has to be unmounted."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

# What a container runtime mounts itself.
KERNELS = ("/proc", "/dev")
# No program in the root can do this.
ENTER = """
import os, sys
_, root, count, *words = sys.argv
os.chroot(root)
os.chdir("/tmp")
os.execve(words[int(count)], words[int(count):], dict(word.split("=", 1) for word in words[:int(count)]))
"""


def why_not() -> str | None:
    done = subprocess.run(["unshare", "--map-root-user", "--mount", "mount", "--bind", "/proc", "/proc"], capture_output=True, text=True)
    return None if done.returncode == 0 else f"no mount namespace for this user here: {done.stderr.strip()}"


def libraries_of(files: list[Path]) -> set[Path]:
    """Of the system's: what the dynamic linker takes for these, itself included."""
    told = subprocess.run(["ldd", *files], capture_output=True, text=True).stdout
    return {Path(found) for found in re.findall(r"(?:=>\s+|^\s+)(/(?:usr/)?lib\S*)", told, re.M)}


class BareRoot:
    def __init__(self, root: Path, folders: list[Path]):
        """`folders` lie in it where they lie outside, Python's own among them."""
        if why := why_not():
            pytest.skip(why)
        self.root = root
        self.folders = [Path(sys.base_prefix), *folders]
        files = [path for folder in self.folders for pattern in ("bin/*", "**/lib-dynload/*.so", "**/*.so", "**/*.so.[0-9]*") for path in folder.glob(pattern)]
        elf = [path for path in files if path.is_file() and path.open("rb").read(4) == b"\x7fELF"]
        for library in libraries_of(elf):
            place = self.inside(library)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, place)
        for folder in (*self.folders, *map(Path, KERNELS), Path("/tmp")):
            self.inside(folder).mkdir(parents=True, exist_ok=True)

    def inside(self, path: Path) -> Path:
        return self.root / path.relative_to("/")

    def command(self, words: list, environment: dict[str, str]) -> list[str]:
        """Runs there with this environment and nothing else of it, in /tmp."""
        lines = [f"mount --rbind {shlex.quote(str(one))} {shlex.quote(str(self.inside(Path(one))))}" for one in (*self.folders, *KERNELS)]
        settings = [f"{name}={value}" for name, value in environment.items()]
        words = ["exec", sys.executable, "-c", ENTER, self.root, len(settings), *settings, *words]
        return ["unshare", "--map-root-user", "--mount", "sh", "-ec", "\n".join([*lines, shlex.join(map(str, words))])]
