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


CLUSTERS = r"""
#include <cooperative_groups.h>
#include <cstdio>
#include <cuda/barrier>
namespace cg = cooperative_groups;
namespace cde = cuda::device::experimental;
using Barrier = cuda::barrier<cuda::thread_scope_block>;
// Each thread reads what the next block of the cluster has, and counts there.
__global__ void __cluster_dims__(2, 2, 1) ring(int* out) {
  __shared__ int mine[32];
  cg::cluster_group cluster = cg::this_cluster();
  mine[threadIdx.x] = cluster.block_rank() * 100 + threadIdx.x;
  cluster.sync();
  int* other = cluster.map_shared_rank(mine, (cluster.block_rank() + 1) % cluster.num_blocks());
  const int block = blockIdx.x + gridDim.x * blockIdx.y;
  out[block * 32 + threadIdx.x] = other[threadIdx.x];
  atomicAdd(&other[0], 1);
  cluster.sync();
  if (!threadIdx.x) out[block * 32] = mine[0];
}
// The first block has the sum of all.
__global__ void sums(int* out) {
  __shared__ int sum;
  cg::cluster_group cluster = cg::this_cluster();
  if (threadIdx.x == 0) sum = 0;
  cluster.sync();
  atomicAdd(cluster.map_shared_rank(&sum, 0), int(cluster.block_rank() * 10 + threadIdx.x));
  cluster.sync();
  if (threadIdx.x == 0) out[blockIdx.x] = *cluster.map_shared_rank(&sum, 0) + cluster.dim_blocks().x;
  cluster.sync();
}
// A slice by one copy, there and back.
__global__ void add_one(int* data) {
  __shared__ alignas(16) int slice[256];
  __shared__ Barrier barrier;
  if (threadIdx.x == 0) init(&barrier, blockDim.x), cde::fence_proxy_async_shared_cta();
  __syncthreads();
  Barrier::arrival_token token;
  if (threadIdx.x == 0) {
    cde::cp_async_bulk_global_to_shared(slice, data + blockIdx.x * 256, sizeof slice, barrier);
    token = cuda::device::barrier_arrive_tx(barrier, 1, sizeof slice);
  } else {
    token = barrier.arrive();
  }
  barrier.wait(std::move(token));
  for (int i = threadIdx.x; i < 256; i += blockDim.x) slice[i] += 1;
  cde::fence_proxy_async_shared_cta();
  __syncthreads();
  if (threadIdx.x == 0) {
    cde::cp_async_bulk_shared_to_global(data + blockIdx.x * 256, slice, sizeof slice);
    cde::cp_async_bulk_commit_group();
    cde::cp_async_bulk_wait_group_read<0>();
  }
}
int main() {
  int* p;
  cudaMallocManaged(&p, 1 << 16);
  ring<<<dim3(4, 2), 32>>>(p);
  std::printf("%s", cudaGetErrorName(cudaDeviceSynchronize()));
  for (int i = 0; i < 8; ++i) std::printf(" %d,%d", p[i * 32], p[i * 32 + 5]);
  cudaLaunchConfig_t config = {};
  cudaLaunchAttribute cluster = {};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = 4;
  cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
  config.gridDim = 8, config.blockDim = 32, config.attrs = &cluster, config.numAttrs = 1;
  cudaLaunchKernelEx(&config, sums, p);
  std::printf("\n%s %d %d\n", cudaGetErrorName(cudaDeviceSynchronize()), p[0], p[7]);
  config.gridDim = 6;
  std::printf("%s\n", cudaGetErrorName(cudaLaunchKernelEx(&config, sums, p)));
  long sum = 0;
  for (int i = 0; i < 1024; ++i) p[i] = i;
  add_one<<<4, 64>>>(p);
  const cudaError_t error = cudaDeviceSynchronize();
  for (int i = 0; i < 1024; ++i) sum += p[i];
  std::printf("%s %ld\n", cudaGetErrorName(error), sum);
}
"""


def test_clusters_and_bulk_copies(tmp_path):
    program = build_nvcc(CLUSTERS, "-std=c++17", "-w", architecture="sm_90")
    outcome = execute([DEVTRACE, "rehearse", "--kernels", "--", program], tmp_path, environment(None))
    rows = outcome.out.splitlines()
    assert rows[0] == "cudaSuccess 32,105 132,205 32,105 132,205 232,305 332,5 232,305 332,5", outcome.out + outcome.err
    # 32 threads each: 10 times their block's rank, and their own number; the last 4 is the cluster's size.
    assert rows[1] == f"cudaSuccess {6 * 320 + 4 * 496 + 4} {6 * 320 + 4 * 496 + 4}", outcome.out + outcome.err
    assert rows[2:] == ["cudaErrorInvalidClusterSize", f"cudaSuccess {1023 * 512 + 1024}"], outcome.out + outcome.err
    assert "not computed" not in outcome.err, outcome.err
