"""Barriers of computed kernels beyond a block's own: all blocks of a cooperative launch, and those that lie in shared memory."""

from conftest import DEVTRACE, environment, execute
from cpp_programs import build_nvcc

PROGRAM = r"""
#include <cooperative_groups.h>
#include <cstdio>
#include <cuda/barrier>
namespace cg = cooperative_groups;
enum { kBlocks = 6, kThreads = 64 };
// Each block reads what the one behind it has written.
__global__ void around(int* numbers, int* sums) {
  const cg::grid_group grid = cg::this_grid();
  for (int round = 0; round < 3; ++round) {
    if (threadIdx.x == 0) numbers[blockIdx.x] = round * 10 + blockIdx.x;
    grid.sync();
    if (threadIdx.x == 0) sums[blockIdx.x] += numbers[(blockIdx.x + 1) % gridDim.x];
    grid.sync();
  }
}
// Threads arrive, and wait for it at another place.
__global__ void apart(int* to) {
  using Barrier = cuda::barrier<cuda::thread_scope_block>;
  __shared__ Barrier barrier;
  __shared__ int values[kThreads];
  __shared__ alignas(16) int copied[kThreads];
  if (threadIdx.x == 0) init(&barrier, blockDim.x);
  __syncthreads();
  for (int round = 0; round < 2; ++round) {
    values[threadIdx.x] = threadIdx.x + round;
    auto token = barrier.arrive();
    barrier.wait(std::move(token));
    to[threadIdx.x] += values[kThreads - 1 - threadIdx.x];
    barrier.arrive_and_wait();
  }
  cuda::memcpy_async(copied + threadIdx.x, to + threadIdx.x, sizeof(int), barrier);
  barrier.arrive_and_wait();
  __syncthreads();
  to[threadIdx.x] = copied[kThreads - 1 - threadIdx.x];
}
int main() {
  int *numbers, *sums;
  cudaMallocManaged(&numbers, kThreads * sizeof(int));
  cudaMallocManaged(&sums, kThreads * sizeof(int));
  for (int i = 0; i < kThreads; ++i) sums[i] = 0;
  void* arguments[] = {&numbers, &sums};
  cudaLaunchCooperativeKernel(around, kBlocks, kThreads, arguments, 0, 0);
  std::printf("%s", cudaGetErrorName(cudaDeviceSynchronize()));
  for (int i = 0; i < kBlocks; ++i) std::printf(" %d", sums[i]);
  for (int i = 0; i < kThreads; ++i) sums[i] = 0;
  apart<<<1, kThreads>>>(sums);
  std::printf("\n%s %d", cudaGetErrorName(cudaDeviceSynchronize()), sums[0]);
  std::printf(" %d\n", sums[kThreads - 1]);
  around<<<kBlocks, kThreads>>>(numbers, sums);
  std::printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
}
"""


def test_barriers(tmp_path):
    outcome = execute([DEVTRACE, "rehearse", "--kernels", "--", build_nvcc(PROGRAM, "-std=c++17", "-w")], tmp_path, environment(None))
    # A launch that is not cooperative has nothing that its blocks could meet at.
    assert outcome.out == "cudaSuccess 33 36 39 42 45 30\ncudaSuccess 1 127\ncudaErrorLaunchFailure\n", outcome.out + outcome.err
    assert "not computed" not in outcome.err and "kernel around on device 0: trap" in outcome.err, outcome.err
