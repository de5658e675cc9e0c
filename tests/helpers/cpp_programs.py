"""C++ programs as their users build them: against the CUDA runtime, with LibTorch, with nvcc."""

import shutil
import subprocess
import sysconfig
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


def build_torch(folder: Path, source: str, *flags: str, name: str = "program") -> Path:
    path = folder / f"{name}.cpp"
    path.write_text(source)
    lib = TORCH / "lib"
    subprocess.run(["g++", "-std=c++17", *flags, "-o", folder / name, path, "-isystem", TORCH / "include",
                    "-isystem", TORCH / "include/torch/csrc/api/include", "-isystem", CUDA / "include", f"-L{lib}",
                    "-Wl,--no-as-needed", "-ltorch", "-ltorch_cpu", "-ltorch_cuda", "-lc10", "-lc10_cuda", f"-Wl,-rpath,{lib}",
                    "-Wl,--allow-shlib-undefined"], check=True)
    return folder / name


def nvcc() -> Path:
    if not NVCC.exists():
        pytest.skip("no nvcc in .cache/nvcc: scripts/install-nvcc makes it of the wheels")
    return NVCC


def build_nvcc(folder: Path, source: str, *flags: str, name: str = "program") -> Path:
    path = folder / f"{name}.cu"
    path.write_text(source)
    subprocess.run([nvcc(), *flags, "-arch=sm_80", "-cudart", "shared", "-o", folder / name, path], check=True)
    return folder / name


def run(program: Path, *arguments: str, folder: Path, options: str | None = None, gpus: int = 2, flags=(), timeout: float = 100) -> Outcome:
    for old in [*folder.glob("devtrace-*")]:
        old.unlink()
    return execute([DEVTRACE, "rehearse", "--gpus", gpus, *flags, "--", program, *arguments], folder, environment(options), timeout)


def line_of(source: str, text: str) -> int:
    numbers = [number for number, line in enumerate(source.splitlines(), 1) if text in line]
    assert len(numbers) == 1, f"{text!r} is on lines {numbers}"
    return numbers[0]


def repaired(source: str, finding: dict) -> str:
    """With the finding's fix in the line that it names."""
    lines = source.splitlines(keepends=True)
    lines[finding["cause"]["line"] - 1] = finding["cause"]["fix"] + "\n"
    return "".join(lines)


def own(record: dict) -> list[dict]:
    """The frames of the user's own code."""
    return [frame for frame in record.get("native", []) if frame.get("project")]


def stripped(program: Path) -> Path:
    copy = program.with_name(program.name + "-stripped")
    shutil.copy(program, copy)
    subprocess.run(["strip", copy], check=True)
    return copy
