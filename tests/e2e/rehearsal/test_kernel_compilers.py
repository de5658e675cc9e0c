"""Kernels of which a program hands machine code to the driver, made by a compiler that it has called itself: the PTX in between is known."""

import importlib.util

import pytest
from conftest import only, start
from cpp_programs import CUDA, build, run

SCALE = """
#include <cuda.h>
#include <nvrtc.h>
#include <cstdio>
#include <vector>

#define DO(call) if (int error = call) return std::printf("%s: %d\\n", #call, error), 1

int main() {
  nvrtcProgram program;
  const char* source = "extern \\"C\\" __global__ void scale(float* x, float by) { x[threadIdx.x] *= by; }";
  DO(nvrtcCreateProgram(&program, source, "scale.cu", 0, nullptr, nullptr));
  const char* options[] = {"-arch=sm_90"};
  DO(nvrtcCompileProgram(program, 1, options));
  size_t bytes;
  DO(nvrtcGetCUBINSize(program, &bytes));
  std::vector<char> cubin(bytes);
  DO(nvrtcGetCUBIN(program, cubin.data()));
  CUcontext context; CUmodule module; CUfunction function; CUdeviceptr x;
  DO(cuInit(0));
  DO(cuDevicePrimaryCtxRetain(&context, 0));
  DO(cuCtxSetCurrent(context));
  DO(cuModuleLoadData(&module, cubin.data()));
  DO(cuModuleGetFunction(&function, module, "scale"));
  DO(cuMemAlloc(&x, 4 * sizeof(float)));
  float values[4] = {1, 2, 3, 4}, by = 3;
  DO(cuMemcpyHtoD(x, values, sizeof values));
  void* arguments[] = {&x, &by};
  DO(cuLaunchKernel(function, 1, 1, 1, 4, 1, 1, 0, nullptr, arguments, nullptr));
  DO(cuMemcpyDtoH(values, x, sizeof values));
  std::printf("%g %g %g %g\\n", values[0], values[1], values[2], values[3]);
}
"""


@pytest.mark.parametrize("flags, printed", [(["--kernels"], "3 6 9 12\n"), ([], "1 2 3 4\n")], ids=["computed", "left alone"])
def test_nvrtcs_machine_code(tmp_path, flags, printed):
    (nvrtc,) = CUDA.glob("lib/libnvrtc.so.*")
    program = build(tmp_path, SCALE, "-Wl,--no-as-needed", str(nvrtc), f"-Wl,-rpath,{nvrtc.parent}")
    outcome = run(program, folder=tmp_path, flags=flags)
    assert (outcome.code, outcome.out) == (0, printed), outcome.err
    assert ("it is computed with --kernels" in outcome.err) == (not flags)


NUMBA = """
import numpy as np
from numba import cuda

@cuda.jit
def sums(x, out):
    part = cuda.shared.array(32, dtype=np.float32)
    i = cuda.threadIdx.x
    part[i] = x[cuda.grid(1)] if cuda.grid(1) < x.size else 0
    cuda.syncthreads()
    step = 16
    while step:
        if i < step:
            part[i] += part[i + step]
        cuda.syncthreads()
        step //= 2
    if i == 0:
        cuda.atomic.add(out, 0, part[0])

out = cuda.to_device(np.zeros(1, dtype=np.float32))
sums[4, 32](cuda.to_device(np.arange(100, dtype=np.float32)), out)
print(out.copy_to_host())
"""

CUPY = """
import cupy as cp, numpy as np
rows = np.random.default_rng(0).random((7, 50))
assert (cp.asnumpy(cp.ones(4) + 1) == 2).all()
assert np.allclose(cp.asnumpy(cp.asarray(rows).sum(axis=1)), rows.sum(axis=1))
scale = cp.RawKernel('extern "C" __global__ void scale(float* x, float by) { x[threadIdx.x] *= by; }', "scale")
x = cp.arange(8, dtype=cp.float32)
scale((1,), (8,), (x, cp.float32(3)))
print(x)
"""


@pytest.mark.parametrize("package, program, printed", [("numba_cuda", NUMBA, "[4950.]\n"), ("cupy", CUPY, "[ 0.  3.  6.  9. 12. 15. 18. 21.]\n")], ids=["numba", "CuPy"])
def test_python_packages_that_compile(tmp_path, package, program, printed):
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    outcome = start(program, tmp_path, env={"DEVTRACE_SIM_KERNELS": "1"})
    assert (outcome.code, outcome.out) == (0, printed), outcome.err
    assert outcome.findings == [] and "not computed" not in outcome.err, outcome.err


# PyTorch's operators write without a call of the driver: of its memory nobody says that nothing was written.
UNWRITTEN = """
import torch
from numba import cuda

@cuda.jit
def copy(x, out):
    out[cuda.grid(1)] = x[cuda.grid(1)]

x, y = torch.empty(32, device="cuda"), torch.empty(32, device="cuda")
x[:] = 2
copy[1, 32](cuda.as_cuda_array(x), cuda.as_cuda_array(y))
print(y.sum().item())
d, e = cuda.device_array(32), cuda.device_array(32)
copy[1, 32](d, e)  # READ
"""


def test_memory_that_nothing_has_written_in_python(tmp_path):
    if importlib.util.find_spec("numba_cuda") is None:
        pytest.skip("numba_cuda is not installed")
    outcome = start(UNWRITTEN, tmp_path, env={"DEVTRACE_SIM_KERNELS": "1", "DEVTRACE_SIM_KERNEL_CHECKS": "all"})
    finding = only(outcome, "uninitialized-read")
    assert (outcome.code, outcome.out) == (0, "64.0\n") and finding["operands"][0]["name"] == "d"
    assert any("# READ" in frame["source"] for frame in finding["python"])
