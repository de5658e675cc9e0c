"""Programs that nvcc builds, as CUDA's users do: nvcc and what it links are among PyPI's wheels (scripts/packages/requirements.txt)."""

import subprocess
import sysconfig
from pathlib import Path

import pytest

WHEELS = Path(sysconfig.get_path("purelib")) / "nvidia"
NVCC = WHEELS / "cu13/bin/nvcc"
# The headers and libraries of CUDA 12; no wheel has its nvcc, and that of CUDA 13 compiles against them.
CUDA12 = WHEELS / "cuda_runtime"

needs_nvcc = pytest.mark.skipif(not NVCC.exists(), reason="nvcc is not among the installed wheels (nvidia-cuda-nvcc)")
needs_cuda12 = pytest.mark.skipif(not (CUDA12 / "lib/libcudart_static.a").exists(), reason="no static runtime of CUDA 12 is installed (nvidia-cuda-runtime-cu12)")


def nvcc(output: Path, *sources, flags=(), cuda=13) -> Path:
    """A program, or with a name ending in .so a library, with the runtime that nvcc links by default: the static one."""
    shared = ["-shared", "-Xcompiler", "-fPIC"] if output.suffix == ".so" else []
    older = ["-I", CUDA12 / "include", "-L", CUDA12 / "lib"] if cuda == 12 else []
    command = [NVCC, "-std=c++17", "-arch=sm_90", "-w", *older, *shared, "-o", output, *sources, *flags]
    subprocess.run(list(map(str, command)), check=True)
    return output
