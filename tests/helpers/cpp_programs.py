"""C++ programs as their users build them: against the CUDA runtime, with LibTorch, with nvcc."""

import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
import sysconfig
from importlib.metadata import version
from pathlib import Path

import pytest
from conftest import BUILD, DEVTRACE, TOP, Outcome, environment, execute

CUDA = TOP / ".cache/cuda"
NVCC = TOP / ".cache/nvcc/bin/nvcc"
TORCH = Path(sysconfig.get_path("purelib")) / "torch"
SIMULATED = BUILD / "simulate"


def build(folder: Path, source: str, *flags: str, name: str = "program", file: str | None = None, libraries=(), compiler="g++") -> Path:
    """A program of one file with the CUDA runtime, dynamically linked: what CMake's CUDA::cudart gives. `libraries`: CUDA's, besides."""
    path = folder / (file or f"{name}.cpp")
    path.write_text(source)
    subprocess.run([compiler, "-std=c++17", *flags, "-o", folder / name, path, "-isystem", CUDA / "include",
                    *(SIMULATED / library for library in libraries), SIMULATED / "libcudart.so.13", SIMULATED / "libcuda.so.1", "-Wl,--allow-shlib-undefined"], check=True)
    return folder / name


KEPT = BUILD / "tests/kept"


@functools.cache
def version_of(compiler) -> str:
    return subprocess.run([compiler, "--version"], check=True, capture_output=True, text=True).stdout


def kept(name: str, source: str, command: list) -> Path:
    """A program of one file, compiled once for all runs of the tests: LibTorch's headers take half a minute. Its debug information names the
    source beside it."""
    made_of = [version_of(command[0]), version("torch"), name, source, *map(str, command)]
    place = KEPT / hashlib.sha256("\0".join(made_of).encode()).hexdigest()[:16]
    program, file = place / Path(name).stem, place / name
    place.mkdir(parents=True, exist_ok=True)
    with open(place / "lock", "w") as lock:  # a program that runs is not replaced by another worker's: its lines would be gone
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            file.write_text(source)
            part = place / "part"
            subprocess.run([command[0], "-o", part, file, *command[1:]], check=True)
            os.replace(part, program)
    return program


def build_torch(source: str, *flags: str) -> Path:
    lib = TORCH / "lib"
    return kept("program.cpp", source, [
        "g++", "-std=c++17", *flags, "-isystem", TORCH / "include", "-isystem", TORCH / "include/torch/csrc/api/include", "-isystem", CUDA / "include",
        f"-L{lib}", "-Wl,--no-as-needed", "-ltorch", "-ltorch_cpu", "-ltorch_cuda", "-lc10", "-lc10_cuda", f"-Wl,-rpath,{lib}", "-Wl,--allow-shlib-undefined"])


def nvcc() -> Path:
    if not NVCC.exists():
        pytest.skip("no nvcc in .cache/nvcc: scripts/get/nvcc makes it of the wheels")
    return NVCC


def build_nvcc(source: str, *flags: str, architecture: str = "sm_80") -> Path:
    return kept("program.cu", source, [nvcc(), *flags, f"-arch={architecture}", "-cudart", "shared"])


def run(program: Path, *arguments: str, folder: Path, options: str | None = None, gpus: int = 2, flags=(), timeout: float = 100) -> Outcome:
    for old in [*folder.glob("devtrace-*")]:
        old.unlink()
    return execute([DEVTRACE, "rehearse", "--gpus", gpus, *flags, "--", program, *arguments], folder, environment(options), timeout)


def line_of(source: str, text: str) -> int:
    numbers = [number for number, line in enumerate(source.splitlines(), 1) if text in line]
    assert len(numbers) == 1, f"{text!r} is on lines {numbers}"
    return numbers[0]


def repaired(source: str, finding: dict) -> str:
    """With the finding's fix in the line that it names, and in those after it that the fix has as well: a statement may go over several."""
    lines, fix, first = source.splitlines(keepends=True), finding["cause"]["fix"], finding["cause"]["line"] - 1
    kept, end = [line.strip() for line in fix.splitlines()], first + 1
    while not lines[end - 1].split("//")[0].rstrip().endswith((";", "{", "}")) and end < len(lines) and lines[end].strip() and lines[end].strip() in kept:
        end += 1
    lines[first:end] = [fix + "\n"]
    return "".join(lines)


def own(record: dict) -> list[dict]:
    """The frames of the user's own code."""
    return [frame for frame in record.get("native", []) if frame.get("project")]


def stripped(program: Path) -> Path:
    copy = program.with_name(program.name + "-stripped")
    shutil.copy(program, copy)
    subprocess.run(["strip", copy], check=True)
    return copy
