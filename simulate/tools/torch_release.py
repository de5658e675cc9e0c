#!/usr/bin/env python3
"""What a rehearsal's quick kernels (values/torch) are built with for another release of PyTorch than the one that is installed.

usage: torch_release.py VERSION FOLDER COMPILER

Out of the wheel, which pip downloads (up to 0.9 GB, of which 60 MB are kept): its headers and its version. Besides, libraries to link with that have
the names of the real ones' symbols and nothing else."""

import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

LIBRARIES = ("libtorch_cpu.so", "libc10.so")
HEADERS = tuple(f"torch/include/{part}/" for part in ("ATen", "c10", "torch/headeronly", "torch/csrc"))
# Headers do not depend on the Python; the wheels of this one exist for every release that is asked for.
PYTHON = "3.12"
SECTIONS = {"FUNC": ("text", "function"), "IFUNC": ("text", "function"), "OBJECT": ("data", "object"), "TLS": ("tbss", "tls_object")}


def exported(library: Path) -> dict[str, str]:
    """name → its type."""
    lines = subprocess.run(["readelf", "--dyn-syms", "--wide", library], capture_output=True, text=True, check=True).stdout.splitlines()
    rows = (line.split() for line in lines)
    found = [row for row in rows if len(row) == 8 and row[4] in ("GLOBAL", "WEAK", "UNIQUE") and row[6] != "UND" and row[3] in SECTIONS]
    return {row[7].partition("@")[0]: row[3] for row in found}


def write_names(library: Path, into: Path, compiler: str) -> None:
    lines = ['.section .note.GNU-stack, "", @progbits', '.section .tbss, "awT", @nobits']
    for name, kind in sorted(exported(library).items()):
        section, type_of = SECTIONS[kind]
        lines += [f".section .{section}" if section == "tbss" else f".{section}", f".globl {name}", f".type {name}, @{type_of}", f"{name}: .skip 8"]
    source = into / f"{library.name}.S"
    source.write_text("\n".join(lines) + "\n")
    subprocess.run([compiler, "-shared", "-nostdlib", f"-Wl,-soname,{library.name}", "-o", into / library.name, source], check=True)
    source.unlink()


def main() -> None:
    version, folder, compiler = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    machine = subprocess.run([compiler, "-dumpmachine"], capture_output=True, text=True, check=True).stdout.partition("-")[0]
    print(f"simulate: reading PyTorch {version}", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "lib").mkdir(parents=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-cache-dir", "--no-deps", "--only-binary", ":all:"]
        of = ["--python-version", PYTHON, "--platform", f"manylinux_2_28_{machine}"]
        subprocess.run([*pip, *of, "--dest", scratch, f"torch=={version}"], check=True)
        with zipfile.ZipFile(next(Path(scratch).glob("*.whl"))) as wheel:
            wheel.extract("torch/version.py", scratch)
            shutil.move(Path(scratch) / "torch" / "version.py", folder)
            wheel.extractall(scratch, [name for name in wheel.namelist() if name.startswith(HEADERS)])
            shutil.move(Path(scratch) / "torch" / "include", folder)
            for name in LIBRARIES:
                write_names(Path(wheel.extract(f"torch/lib/{name}", scratch)), folder / "lib", compiler)


if __name__ == "__main__":
    main()
