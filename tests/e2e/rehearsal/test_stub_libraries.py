"""The stubs export what the real libraries export, under the same versions, and say what they lack. What kernels are linked with for a PyTorch
that is not installed (simulate/tools/torch_release.py)."""

import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from conftest import BUILD, TOP

sys.path.insert(0, str(TOP / "simulate" / "tools"))
import torch_release  # noqa: E402

WHEELS = Path(sysconfig.get_paths()["purelib"]) / "nvidia"
REAL = {
    "libcudart.so.13": "cu13/lib",
    "libcublas.so.13": "cu13/lib",
    "libcublasLt.so.13": "cu13/lib",
    "libcusolver.so.12": "cu13/lib",
    "libcusparse.so.12": "cu13/lib",
    "libcufft.so.12": "cu13/lib",
    "libcurand.so.10": "cu13/lib",
    "libcupti.so.13": "cu13/lib",
    "libcudnn.so.9": "cudnn/lib",
    "libnccl.so.2": "nccl/lib",
}


def exported(library: Path) -> set[str]:
    """symbol@version of the functions."""
    out = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    rows = [line.split()[-2:] for line in out.splitlines()]
    return {name.replace("@@", "@") for kind, name in rows if kind in "TWVi" and name not in ("_init", "_fini")}


@pytest.mark.parametrize("name", REAL)
def test_every_symbol_and_version_of_the_real_one(name):
    real = exported(WHEELS / REAL[name] / name)
    assert len(real) > 20
    assert real - exported(BUILD / "simulate" / name) == set()


@pytest.mark.parametrize("name, header, declared", [
    ("libcuda.so.1", "cuda.h", r"^CUresult CUDAAPI\s+(cu\w+)\("),
    ("libnvidia-ml.so.1", "nvml.h", r"^nvmlReturn_t DECLDIR (nvml\w+)\("),
])  # fmt: skip
def test_every_function_of_the_header_where_no_wheel_has_the_library(name, header, declared):
    names = set(re.findall(declared, (TOP / ".cache/cuda/include" / header).read_text(), re.MULTILINE))
    assert len(names) > 250
    assert names - exported(BUILD / "simulate" / name) == set()


@pytest.mark.parametrize("name, file", [("cudart", "libcudart.so.13"), ("nccl", "libnccl.so.2")])
def test_every_function_that_came_after_the_libraries_here(name, file):
    """A PyTorch that names one which nobody exports cannot be imported."""
    names = set((TOP / "simulate" / name / "newer.names").read_text().split())
    assert len(names) > 10
    assert names - {each.partition("@")[0] for each in exported(BUILD / "simulate" / file)} == set()


def test_what_is_missing_is_said_once_with_the_interface_s_own_code():
    program = f"""
import ctypes
ctypes.CDLL({str(BUILD / 'simulate/libcuda.so.1')!r}, mode=ctypes.RTLD_GLOBAL)
nvml = ctypes.CDLL({str(BUILD / 'simulate/libnvidia-ml.so.1')!r})
print(nvml.nvmlInit_v2(), nvml.nvmlDeviceGetFanSpeed(None, None), nvml.nvmlDeviceGetFanSpeed(None, None))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "0 3 3\n"), done.stderr
    assert done.stderr.count("nvmlDeviceGetFanSpeed") == 1


LIBRARY = """
int number = 7;
__thread int of_a_thread = 3;
int answer(void) { return number; }
__attribute__((visibility("hidden"))) int own(void) { return 1; }
"""
USER = "extern int number; extern __thread int of_a_thread; int answer(void);\nint use(void) { return answer() + number + of_a_thread; }\n"


def compiled(folder, name, source, *flags):
    (folder / f"{name}.c").write_text(source)
    out = folder / name
    return subprocess.run(["gcc", "-shared", "-fPIC", "-Wl,-z,defs", "-o", out, folder / f"{name}.c", *flags], capture_output=True, text=True)


def test_names_are_enough_to_link_with(tmp_path):
    real, names = tmp_path / "real", tmp_path / "names"
    real.mkdir()
    names.mkdir()
    assert compiled(real, "libtried.so", LIBRARY, "-Wl,-soname,libtried.so").returncode == 0
    torch_release.write_names(real / "libtried.so", names, "gcc")
    linked = compiled(tmp_path, "user.so", USER, f"-L{names}", "-ltried")
    assert linked.returncode == 0, linked.stderr
    # It then runs beside the real one.
    ask = f"import ctypes; ctypes.CDLL({str(real / 'libtried.so')!r}, ctypes.RTLD_GLOBAL); print(ctypes.CDLL({str(tmp_path / 'user.so')!r}).use())"
    assert subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True).stdout == "17\n"
    # What the library keeps to itself, or does not have, is missing when it is linked, not when it is loaded.
    for missing in ("own", "nothing"):
        assert f"undefined reference to `{missing}'" in compiled(tmp_path, "wrong.so", f"int {missing}(void); int use(void) {{ return {missing}(); }}\n", f"-L{names}", "-ltried").stderr
