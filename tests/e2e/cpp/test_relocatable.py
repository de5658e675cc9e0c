"""Programs of nvcc -rdc=true: their kernels' PTX lies in images that the driver links."""

import subprocess

import pytest
from conftest import DEVTRACE, environment, execute
from cpp_programs import nvcc

MAIN = r"""
#include <cstdio>
extern __device__ int scaled(int value);
extern __constant__ int scale;
static __device__ int helper(int value) { return value + 1; }
__global__ void apply(int* to) { to[threadIdx.x] = scaled(helper(to[threadIdx.x])); }
int main() {
  int three = 3, values[4] = {0, 1, 2, 3}, *memory;
  cudaMalloc(&memory, sizeof values);
  cudaMemcpy(memory, values, sizeof values, cudaMemcpyHostToDevice);
  cudaMemcpyToSymbol(scale, &three, sizeof three);
  apply<<<1, 4>>>(memory);
  cudaMemcpy(values, memory, sizeof values, cudaMemcpyDeviceToHost);
  std::printf("%s %d %d\n", cudaGetErrorName(cudaGetLastError()), values[0], values[3]);
}
"""
OTHER = r"""
__constant__ int scale = 1;
static __device__ __noinline__ int helper(int value) { return value * scale; }
__device__ int scaled(int value) { return helper(value); }
"""


# As CMake has it for a list of architectures, and PTX alone.
@pytest.mark.parametrize("code", ["arch=compute_80,code=[sm_80,compute_80]", "arch=compute_80,code=compute_80"], ids=["machine_code_too", "ptx_alone"])
def test_a_kernel_of_two_files(tmp_path, code):
    (tmp_path / "main.cu").write_text(MAIN)
    (tmp_path / "other.cu").write_text(OTHER)
    subprocess.run([nvcc(), "-rdc=true", "-gencode", code, "-cudart", "shared", "-o", "program", "main.cu", "other.cu"], cwd=tmp_path, check=True)
    outcome = execute([DEVTRACE, "rehearse", "--kernels", "--", "./program"], tmp_path, environment(None))
    assert outcome.out == "cudaSuccess 3 12\n" and "not computed" not in outcome.err, outcome.err
    outcome = execute([DEVTRACE, "rehearse", "--", "./program"], tmp_path, environment(None))
    assert "kernel apply (launches: 1): NVIDIA's compiler made it, and it is computed with --kernels" in outcome.err, outcome.err
