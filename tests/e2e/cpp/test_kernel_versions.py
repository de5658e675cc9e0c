"""What a program is told of its kernels is true of the code that is computed: a fat binary has machine code for the device, and PTX for another one."""

from cpp_programs import kept, run
from nvcc_programs import NVCC, needs_nvcc

pytestmark = needs_nvcc

SOURCE = """
#include <cstdio>
#include <cuda_runtime.h>
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1200
#define MOST 512
#else
#define MOST 256
#endif
__global__ void __launch_bounds__(MOST) own(int* version) {
#ifdef __CUDA_ARCH__
  __shared__ int room[MOST + 1];
  room[threadIdx.x] = __CUDA_ARCH__ / 10;
  __syncthreads();
  *version = room[MOST - 1 - threadIdx.x];
#endif
}
int main() {
  int* there = nullptr;
  int version = 0;
  cudaMalloc(&there, sizeof(int));
  cudaFuncAttributes attributes{};
  cudaFuncGetAttributes(&attributes, own);
  int blocks = 0;
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, own, 512, 0);
  own<<<1, 512>>>(there);
  cudaMemcpy(&version, there, sizeof version, cudaMemcpyDeviceToHost);
  own<<<1, 544>>>(there);
  std::printf("%s ", cudaGetErrorName(cudaGetLastError()));
  std::printf("%d %d %d %d %zu %d\\n", attributes.ptxVersion, version, attributes.maxThreadsPerBlock, blocks > 0, attributes.sharedSizeBytes, attributes.numRegs <= 128);
}
"""


def test_the_version_and_bounds_are_those_of_the_computed_code(tmp_path):
    of_two = ["-gencode", "arch=compute_90,code=sm_90", "-gencode", "arch=compute_120,code=compute_120", "-cudart", "shared"]
    outcome = run(kept("program.cu", SOURCE, [NVCC, *of_two]), folder=tmp_path, flags=["--kernels"])
    assert (outcome.code, outcome.out) == (0, "cudaErrorInvalidValue 120 120 512 1 2052 1\n"), outcome.err
