"""Programs of nvcc -rdc=true: their kernels' PTX lies in images that the driver links."""

import subprocess

import pytest
from conftest import DEVTRACE, environment, execute
from cpp_programs import line_of, nvcc

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


LAUNCHES = r"""
#include <cstdio>
__global__ void level(int* to, int depth) {
  to[threadIdx.x + depth * 32] += depth;
  if (threadIdx.x == 0 && depth < 3) level<<<1, 32>>>(to, depth + 1);
}
__global__ void last(int* to) { to[200] = to[32] + to[127]; }
__global__ void first(int* to) {
  if (threadIdx.x) return;
  level<<<1, 32>>>(to, 1);
  last<<<1, 1, 0, cudaStreamTailLaunch>>>(to);
  cudaStream_t stream;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  level<<<1, 32, 16, stream>>>(to, 1);
  cudaStreamDestroy(stream);
  cudaMemsetAsync(to + 240, 1, 8);
  cudaDeviceGetAttribute(to + 201, cudaDevAttrWarpSize, 0);
  to[202] = cudaGetLastError();
}
__global__ void wrong(int* to) { to[1 << 20] = 1; }
__global__ void calls_wrong(int* to) { wrong<<<1, 1>>>(to); }
int main() {
  int* to;
  cudaMallocManaged(&to, 4096);
  first<<<1, 32>>>(to);
  std::printf("%s", cudaGetErrorName(cudaDeviceSynchronize()));
  for (int i : {0, 32, 64, 127, 128, 200, 201, 202, 241}) std::printf(" %d", to[i]);
  calls_wrong<<<1, 1>>>(to);
  std::printf("\n%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
}
"""


def test_kernels_that_launch_kernels(tmp_path):
    (tmp_path / "main.cu").write_text(LAUNCHES)
    subprocess.run([nvcc(), "-std=c++17", "-rdc=true", "-arch=compute_90", "-lineinfo", "-cudart", "shared", "-o", "program", "main.cu", "-lcudadevrt"], cwd=tmp_path, check=True)
    outcome = execute([DEVTRACE, "rehearse", "--kernels", "--", "./program"], tmp_path, environment(None))
    assert outcome.out == "cudaSuccess 0 2 4 6 0 8 32 0 16843009\ncudaErrorIllegalAddress\n" and "not computed" not in outcome.err, outcome.out + outcome.err
    assert "kernel wrong on device 0: illegal address: st.global.u32 writes 4 bytes" in outcome.err, outcome.err
    assert f"main.cu:{line_of(LAUNCHES, 'void wrong')}" in outcome.err, outcome.err
