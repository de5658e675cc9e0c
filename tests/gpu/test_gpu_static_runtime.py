"""Programs whose CUDA runtime is linked into them, as nvcc does it, and cuBLAS, which holds one: their launches are the driver's, by
functions that were looked up at run time."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import TOP, only
from gpu_machine import SIMULATED, WHEELS, Machine, machine, reaches_host  # noqa: F401
from gpu_programs import DRIVER
from nvcc_programs import NVCC

STATIC = WHEELS / "cu13/lib/libcudart_static.a"
# What tells on stdout: launches, and what the device says in the end.
WITHOUT_COMPILER = '''
#include <cuda_runtime_api.h>
#include <cstdio>
#include <cstdlib>
#define CHECK(call) if (const cudaError_t code = (call); code != cudaSuccess) { std::printf("%s: %s\\n", #call, cudaGetErrorString(code)); return 3; }
const char* kText = R"(
.version 7.0
.target sm_75
.address_size 64
.visible .entry touch(.param .u64 first) {
  .reg .b64 %rd<3>;
  .reg .b32 %r<2>;
  ld.param.u64 %rd1, [first];
  cvta.to.global.u64 %rd2, %rd1;
  ld.global.u32 %r1, [%rd2];
  st.global.u32 [%rd2], %r1;
  ret;
})";
int main(int count, char**) {
  void* memory = nullptr;
  cudaLibrary_t library;
  cudaKernel_t kernel;
  CHECK(cudaMalloc(&memory, 4096));
  CHECK(cudaLibraryLoadData(&library, kText, nullptr, nullptr, 0, nullptr, nullptr, 0));
  CHECK(cudaLibraryGetKernel(&kernel, library, "touch"));
  if (count > 1) memory = std::malloc(1 << 20);
  void* arguments[] = {&memory};
  CHECK(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(1), dim3(1), arguments, 0, nullptr));
  std::printf("launched %d\\n", cudaDeviceSynchronize());
}
'''
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
    (folder / "program.cpp").write_text(WITHOUT_COMPILER)
    subprocess.run(
        ["g++", "-std=c++17", folder / "program.cpp", "-o", folder / "program", "-I", TOP / ".cache/cuda/include", STATIC, "-ldl", "-lrt", "-lpthread"],
        check=True,
    )  # fmt: skip
    return folder / "program"


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


@pytest.mark.skipif(not STATIC.exists(), reason="the wheels have no libcudart_static.a")
def test_a_static_runtime_on_the_simulated_driver_alone_says_that_it_cannot(tmp_path):
    """NVIDIA's own runtime is answered nothing that would let it run: its calls fail unless they are sent to the stand-in runtime."""
    if not SIMULATED:
        pytest.skip("of the stubs: DEVTRACE_TEST_GPU=simulated runs it")
    outcome = Machine(tmp_path).run([compiled_by_gpp(tmp_path)], own_runtime=True)
    assert (outcome.code, outcome.findings) == (3, []) and "operation not supported" in outcome.out, outcome.err


# Linked between a static runtime and the process (--wrap=dlsym): says whose function the runtime gets under each name.
OBSERVER = r"""
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <cstdio>
#include <cstring>
extern "C" {
void* __real_dlsym(void*, const char*);
static int (*ask)(const char*, void**, int, unsigned long long, void*);
static void tell(const char* way, const char* name, void* found) {
  Dl_info info{};
  if (found && dladdr(found, &info)) std::printf("%s %s %s %s\n", way, name, strrchr(info.dli_fname, '/') + 1, info.dli_saddr == found ? info.dli_sname : "?");
}
static int observe(const char* name, void** found, int version, unsigned long long flags, void* status) {
  const int code = ask(name, found, version, flags, status);
  if (code != 0 || !*name) return code;
  tell("entry", name, *found);
  if (strcmp(name, "cuGetProcAddress") == 0 && version >= 12000) *found = reinterpret_cast<void*>(observe);  // from here on it asks this one
  return code;
}
void* __wrap_dlsym(void* handle, const char* name) {
  void* const found = __real_dlsym(handle, name);
  if (found) tell("dlsym", name, found);
  if (strcmp(name, "cuGetProcAddress_v2") != 0) return found;
  ask = reinterpret_cast<decltype(ask)>(found);
  return reinterpret_cast<void*>(observe);
}
}
int main() {
  int count = 0;
  cudaGetDeviceCount(&count);
}
"""


@pytest.mark.skipif(not STATIC.exists(), reason="the wheels have no libcudart_static.a")
def test_a_static_runtime_is_handed_the_hooks(machine, tmp_path):
    """Of the hundreds of driver functions that it looks up, those of the table and no others; on simulated devices it comes as far as that."""
    (tmp_path / "observer.cpp").write_text(OBSERVER)
    include = TOP / ".cache/cuda/include"
    subprocess.run(
        ["g++", "-std=c++17", tmp_path / "observer.cpp", "-o", tmp_path / "observer", "-Wl,--wrap=dlsym", "-I", include, STATIC, "-ldl", "-lrt", "-lpthread"],
        check=True,
    )  # fmt: skip
    rows = re.findall(r'^HOOK\("libcuda.so", (\w+)\)$', (TOP / "interpose/linking/hooks.inc").read_text(), re.M)
    hooked = {re.sub(r"(_v\d)?(_pts[zd]|_ptds)?$", "", row) for row in rows}
    answers = {}
    for trace in (True, False):
        outcome = machine.run([tmp_path / "observer"], trace=trace, own_runtime=True)
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


# Stands behind devtrace: what a hook calls is counted here. Without the hook nobody comes by.
COUNTER = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
static long entered;
__attribute__((visibility("hidden"), used)) void* enter(const char* name) {
  static void* driver;
  if (!driver) driver = dlopen("libcuda.so.1", RTLD_LAZY);
  ++entered;
  return dlsym(driver, name);
}
long launches_counted() { return entered; }
#define COUNT(name) __asm__(".pushsection .text\n.globl " #name "\n.type " #name ", @function\n" #name ":\n" \
  "push %rdi\npush %rsi\npush %rdx\npush %rcx\npush %r8\npush %r9\nsub $8, %rsp\nlea .L" #name "(%rip), %rdi\ncall enter\n" \
  "add $8, %rsp\npop %r9\npop %r8\npop %rcx\npop %rdx\npop %rsi\npop %rdi\njmp *%rax\n.popsection\n" \
  ".pushsection .rodata\n.L" #name ": .asciz \"" #name "\"\n.popsection\n");
COUNT(cuLaunchKernel)
COUNT(cuLaunchKernelEx)
COUNT(cuLaunchKernel_ptsz)
COUNT(cuLaunchKernelEx_ptsz)
"""


@pytest.fixture(scope="module")
def counter(tmp_path_factory):
    folder = tmp_path_factory.mktemp("counter")
    subprocess.run(["gcc", "-x", "c", "-O1", "-w", "-shared", "-fPIC", "-o", folder / "libcounter.so", "-", "-ldl"], input=COUNTER, text=True, check=True)
    return folder / "libcounter.so"


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
