"""Kernels of libraries that are machine code alone and computed by what they are known to do: an all-reduce over memory that ranks have mapped."""

import re

from conftest import DEVTRACE, environment, execute
from nvcc_programs import needs_nvcc, nvcc

# As in vLLM's custom_all_reduce.cuh: its names and parameters. Two ranks in one process, each with a device.
SOURCE = """
#include <cstdio>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace vllm {
struct Signal { unsigned words[256]; };
struct RankData { const void* pointers[8]; };
struct __align__(16) RankSignals { Signal* signals[8]; };
template <typename T, int ranks>
__global__ void cross_device_reduce_1stage(RankData*, RankSignals, Signal*, T* __restrict__ result, int, int) { *result = T(0.0f); }
template <typename T, int ranks>
__global__ void cross_device_reduce_2stage(RankData*, RankSignals, Signal*, T* __restrict__ result, int, int) { *result = T(0.0f); }
}
using namespace vllm;

constexpr int kCount = 1024;
template <typename T>
__global__ void nobody_computes(T* out) { *out = T(0.0f); }
template <typename T>
struct Rank { T *input, *result; RankData* data; Signal* signal; cudaStream_t stream; };

template <typename T>
void fill(Rank<T>& rank, float value) {
  static T values[kCount];
  for (T& one : values) one = T(value);
  cudaMemcpy(rank.input, values, sizeof values, cudaMemcpyHostToDevice);
}

template <typename T>
void check(const char* name, void (*kernel)(RankData*, RankSignals, Signal*, T*, int, int)) {
  Rank<T> ranks[2];
  RankSignals signals = {};
  RankData data = {};
  for (int i = 0; i < 2; ++i) {
    cudaSetDevice(i);
    cudaDeviceEnablePeerAccess(1 - i, 0);
    cudaMalloc(&ranks[i].input, kCount * sizeof(T));
    cudaMalloc(&ranks[i].result, kCount * sizeof(T));
    cudaMalloc(&ranks[i].data, sizeof(RankData));
    cudaMalloc(&ranks[i].signal, sizeof(Signal));
    cudaMemset(ranks[i].signal, 0, sizeof(Signal));
    cudaStreamCreate(&ranks[i].stream);
    signals.signals[i] = ranks[i].signal;
    data.pointers[i] = ranks[i].input;
  }
  for (int turn = 0; turn < 3; ++turn) {
    for (int i = 0; i < 2; ++i) {
      cudaSetDevice(i);
      fill(ranks[i], turn + i + 0.5f);
      cudaMemcpy(ranks[i].data, &data, sizeof data, cudaMemcpyHostToDevice);
      if (turn == 1 && i == 0 && sizeof(T) == 4) nobody_computes<<<1, 1, 0, ranks[0].stream>>>(ranks[0].input);
      kernel<<<4, 256, 0, ranks[i].stream>>>(ranks[i].data, signals, ranks[i].signal, ranks[i].result, i, kCount * sizeof(T) / 16);
      if (i == 0) printf("%s ", cudaStreamQuery(ranks[0].stream) == cudaErrorNotReady ? "waits" : "does not wait"), cudaGetLastError();
    }
    for (int i = 0; i < 2; ++i) {
      T values[kCount];
      cudaSetDevice(i);
      cudaMemcpyAsync(values, ranks[i].result, sizeof values, cudaMemcpyDeviceToHost, ranks[i].stream);
      cudaStreamSynchronize(ranks[i].stream);
      printf("%g %g ", float(values[0]), float(values[kCount - 1]));
    }
  }
  printf("%s %s\\n", name, cudaGetErrorString(cudaGetLastError()));
}

int main() {
  check<float>("float", cross_device_reduce_1stage<float, 2>);
  check<half>("half", cross_device_reduce_2stage<half, 2>);
  check<__nv_bfloat16>("bfloat16", cross_device_reduce_1stage<__nv_bfloat16, 2>);
  Rank<float> rank = {};
  cudaMalloc(&rank.result, 64);
  cross_device_reduce_1stage<float, 4><<<1, 32>>>(nullptr, {}, nullptr, rank.result, 0, 4);
  float value = 7;
  cudaMemcpy(&value, rank.result, sizeof value, cudaMemcpyDeviceToHost);
  printf("%g\\n", value);
}
"""


@needs_nvcc
def test_an_all_reduce_over_mapped_memory(tmp_path):
    (tmp_path / "program.cu").write_text(SOURCE)
    program = nvcc(tmp_path / "program", tmp_path / "program.cu")
    outcome = execute([DEVTRACE, "rehearse", "--gpus", 2, "--", program], tmp_path, environment(None))
    turns = "waits 2 2 2 2 waits 4 4 4 4 waits 6 6 6 6"
    assert outcome.code == 0 and outcome.out.splitlines() == [*(f"{turns} {name} no error" for name in ("float", "half", "bfloat16")), "0"], outcome.out + outcome.err
    reads = re.findall("the host reads what (.*) should have written", outcome.err)
    assert reads == ["kernel nobody_computes", "a kernel of rank 0", "kernel vllm::cross_device_reduce_1stage"], outcome.err
    assert "(launches: 1): nobody has allocated what it is given" in outcome.err
