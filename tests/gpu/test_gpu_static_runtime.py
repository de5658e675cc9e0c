"""Programs whose CUDA runtime is linked into them, as nvcc does it, and cuBLAS, which holds one. Their launches are the driver's, by
functions that were looked up at run time."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import TOP, only
from gpu_compiled import compiled
from gpu_machine import DRIVER, SIMULATED, Machine, machine, reaches_host  # noqa: F401
from nvcc_programs import NVCC

WITH_COMPILER = '''
#include <cstdio>
#include <cstdlib>
__global__ void touch(int* first) { *first += 1; }
int main(int count, char**) {
  int* memory = nullptr;
  if (cudaMalloc(&memory, 4096) != cudaSuccess) return 3;
  if (count > 1) memory = static_cast<int*>(std::malloc(1 << 20));
  touch<<<1, 1>>>(memory);
  std::printf("launched %d\\n", cudaDeviceSynchronize());
}
'''


def compiled_by_gpp(folder: Path) -> Path:
    return compiled(folder, "launches")


def compiled_by_nvcc(folder: Path) -> Path:
    nvcc = shutil.which(NVCC) or shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
    if not nvcc:
        pytest.skip("no nvcc among the wheels, on PATH or in /usr/local/cuda/bin")
    (folder / "program.cu").write_text(WITH_COMPILER)
    subprocess.run([nvcc, "-cudart", "static", "-arch=sm_90" if SIMULATED else "-arch=native", folder / "program.cu", "-o", folder / "program"], check=True)
    return folder / "program"


COMPILERS = {"g++": compiled_by_gpp, "nvcc": compiled_by_nvcc}


@pytest.mark.parametrize("how", ["preloaded", "injected", "backend=cupti"])
@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_static_runtime(machine, tmp_path, compiler, how):
    if SIMULATED and (compiler, how) == ("nvcc", "injected"):
        pytest.skip("what nvcc calls to launch, __cudaLaunchKernel, has no parameters in CUPTI's headers")
    program = COMPILERS[compiler](tmp_path)
    options = how if "=" in how else None
    clean = machine.run([program], options, injected=how == "injected")
    assert clean.out == "launched 0\n" and clean.findings == [], clean.err
    outcome = machine.run([program, "host"], options, injected=how == "injected")
    if reaches_host():
        assert outcome.out == "launched 0\n" and outcome.findings == [], outcome.err
        return
    finding = only(outcome, "host-access")
    assert outcome.out == "launched 700\n" and "touch" in finding["launch"]["kernel"] and finding["launch"]["parameter"] == 0


def test_a_static_runtime_on_the_simulated_driver_alone_says_that_it_cannot(tmp_path):
    """NVIDIA's own runtime is answered nothing that would let it run: its calls fail unless they are sent to the stand-in runtime."""
    if not SIMULATED:
        pytest.skip("of the stubs: DEVTRACE_TEST_GPU=simulated runs it")
    outcome = Machine(tmp_path).run([compiled_by_gpp(tmp_path)], own_runtime=True)
    assert (outcome.code, outcome.findings) == (3, []) and "operation not supported" in outcome.out, outcome.err


def test_a_static_runtime_is_handed_the_hooks(machine, tmp_path):
    """Of the hundreds of driver functions that it looks up, those of the table and no others; on simulated devices it comes as far as that."""
    observer = compiled(tmp_path, "observer")
    rows = re.findall(r'^HOOK\("libcuda.so", (\w+)\)$', (TOP / "interpose/linking/hooks.inc").read_text(), re.M)
    hooked = {re.sub(r"(_v\d)?(_pts[zd]|_ptds)?$", "", row) for row in rows}
    answers = {}
    for trace in (True, False):
        outcome = machine.run([observer], trace=trace, own_runtime=True)
        assert outcome.code == 0, outcome.err
        answers[trace] = [line.split() for line in outcome.out.splitlines()]
        seen = {name for _, name, library, _ in answers[trace] if library == "libdevtrace.so"}
        asked = {name for way, name, _, _ in answers[trace] if way == "entry"}
        assert len(asked) > 300 and {"cuLaunchKernel", "cuLaunchKernelEx", "cuMemAlloc", "cuMemcpyHtoDAsync", "cuCtxSetCurrent"} <= asked
        assert seen - {"cuGetProcAddress_v2"} == (asked & hooked if trace else set())
    # Each hook is that of just the symbol, with its version and its stream, that the driver would have answered.
    assert len(answers[True]) == len(answers[False])
    pairs = [(traced[3], bare[3].removeprefix("devtrace_sim_")) for traced, bare in zip(answers[True], answers[False]) if traced[2] == "libdevtrace.so"]
    assert [(traced, bare) for traced, bare in pairs if bare != "?" and traced != bare] == []
    assert len({traced for traced, _ in pairs}) > 90 and (not SIMULATED or all(bare != "?" for _, bare in pairs))


@pytest.fixture(scope="module")
def counter(tmp_path_factory):
    return compiled(tmp_path_factory.mktemp("counter"), "libcounter.so")


def test_launches_pass_the_hooks_whoever_launches(machine, counter):
    """The counter's own proof, on simulated devices too: looked-up driver functions lead to the hooks and on to what stands behind."""
    outcome = machine.run(DRIVER + """
found = P()
call("cuGetProcAddress_v2", b"cuLaunchKernel", ctypes.byref(found), 12000, ctypes.c_uint64(0), None)
function = ctypes.CFUNCTYPE(ctypes.c_int, P, U, U, U, U, U, U, U, P, P, P)(found.value)
values = [ctypes.c_int(7), P(here), Both(7, here, here)]
pointers = (P * 3)(*[ctypes.cast(ctypes.pointer(v), P) for v in values])
for _ in range(3): function(touch, 1, 1, 1, 1, 1, 1, 0, None, ctypes.cast(pointers, P), None)
print(cuda.cuCtxSynchronize(), ctypes.CDLL(None).launches_counted())
""", after=[counter])  # fmt: skip
    assert outcome.out == "0 3\n" and outcome.findings == [], outcome.err


CUBLAS = """
import ctypes, torch
library = ctypes.CDLL("libcublas.so.13")
counted = ctypes.CDLL(None).launches_counted
counted.restype = ctypes.c_long
a = torch.randn(512, 512, device="cuda:0")
torch.cuda.synchronize()
before = counted()
for _ in range(10):
    a @ a
torch.cuda.synchronize()
print(counted() - before)
"""


@pytest.mark.hardware("the stub cuBLAS launches nothing")
def test_launches_of_cublas_are_seen(machine, counter):
    """cuBLAS has a static runtime: not one of its launches passes libcudart.so."""
    outcome = machine.run(CUBLAS, after=[counter])
    assert outcome.code == 0 and int(outcome.out) >= 10, outcome.out + outcome.err
    assert outcome.findings == []


@pytest.mark.hardware("the stub cuBLAS launches nothing")
@pytest.mark.parametrize("how", ["preloaded", "injected", "backend=cupti"])
def test_cublas_with_a_pointer_of_the_host(machine, how):
    outcome = machine.run("""
import ctypes, torch
torch.ones(1, device="cuda:0")
cublas, P = ctypes.CDLL("libcublas.so.13"), ctypes.c_void_p
handle, one = P(), ctypes.c_float(1)
assert cublas.cublasCreate_v2(ctypes.byref(handle)) == 0
device, libc = torch.zeros(256, 256, device="cuda:0"), ctypes.CDLL(None)
libc.malloc.restype = P
host = libc.malloc(ctypes.c_size_t(4 << 20))
n = ctypes.c_int(256)
cublas.cublasSgemm_v2(handle, 0, 0, n, n, n, ctypes.byref(one), P(host), n, P(device.data_ptr()), n, ctypes.byref(one), P(device.data_ptr()), n)
print(ctypes.CDLL("libcudart.so.13").cudaDeviceSynchronize(), flush=True)
import os
os._exit(0)
""", how if "=" in how else None, injected=how == "injected")  # fmt: skip
    if reaches_host():
        assert outcome.out == "0\n" and outcome.findings == [], outcome.err
        return
    assert outcome.out == "700\n", outcome.out + outcome.err
    assert [finding["kind"] for finding in outcome.findings] == ["host-access"], outcome.err
