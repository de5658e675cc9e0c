"""--kernel-checks all: races in a block's shared memory, and device memory that is read before anything has written it. CUDA's programming guide,
"Synchronization Functions"; the terms are compute-sanitizer's (racecheck, initcheck)."""

import pytest
from conftest import only
from cpp_programs import build_nvcc, line_of, own, run
from nvcc_programs import needs_nvcc

pytestmark = [needs_nvcc, pytest.mark.xdist_group("kernel_checks")]

PROGRAM = r"""
#include <cstdio>
#include <cstring>
#include <cooperative_groups.h>
#include <cuda_pipeline.h>
__global__ void reverse(int* data, bool right) {
  __shared__ int turned[64];
  turned[threadIdx.x] = data[threadIdx.x];  // WRITES
  if (right) __syncthreads();
  data[threadIdx.x] = turned[63 - threadIdx.x];  // READS
}
__global__ void sum(int* data, bool right) {
  extern __shared__ int part[];
  part[threadIdx.x] = data[threadIdx.x];
  __syncthreads();
  for (int half = 32; half > 0; half /= 2) {
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];  // ADDS
    if (right || half > 1) __syncthreads();
  }
  if (threadIdx.x == 63) data[0] = part[0];  // TAKES
}
__global__ void by_warps(int* data, bool right) {
  __shared__ int turned[64];
  turned[threadIdx.x] = data[threadIdx.x];
  if (right) __syncwarp();
  data[threadIdx.x] = turned[threadIdx.x ^ 1];  // IN A WARP
}
__global__ void counters(int* data, bool right) {
  __shared__ int counts[16];
  if (threadIdx.x < 16) counts[threadIdx.x] = 0;  // ZEROES
  if (right) __syncthreads();
  atomicAdd(&counts[threadIdx.x % 16], 1);  // HISTOGRAM
  __syncthreads();
  if (threadIdx.x < 16) data[threadIdx.x] = counts[threadIdx.x];
}
__global__ void copied(int* data, bool right) {
  __shared__ int turned[64];
  __pipeline_memcpy_async(&turned[threadIdx.x], &data[threadIdx.x], sizeof(int));  // COPIES
  __pipeline_commit();
  __pipeline_wait_prior(0);
  if (right) __syncthreads();
  data[threadIdx.x] = turned[63 - threadIdx.x];  // OF THE COPY
}
__global__ void flag(int* data, bool) {
  __shared__ int any, count;
  __shared__ volatile int seen[64];
  if (threadIdx.x == 0) any = count = 0;
  __syncthreads();
  if (data[threadIdx.x] >= 0) any = 1;  // all write the same
  atomicAdd(&count, 1);
  seen[threadIdx.x] = 1;
  if (threadIdx.x < 32) data[threadIdx.x] = seen[threadIdx.x + 32];
  __syncthreads();
  if (threadIdx.x == 0) data[0] = any + count;
}
__global__ void by_group(int* data, bool) {
  __shared__ int turned[64];
  cooperative_groups::thread_block block = cooperative_groups::this_thread_block();
  turned[threadIdx.x] = data[threadIdx.x];
  block.sync();
  data[threadIdx.x] = turned[63 - threadIdx.x];
  block.sync();
  turned[63 - threadIdx.x] = data[threadIdx.x];
}
__global__ void bytes(int* data, bool) {
  __shared__ char each[64];
  each[threadIdx.x] = static_cast<char>(data[threadIdx.x]);
  data[threadIdx.x] = each[threadIdx.x];
}
__global__ void scale(int* out, const int* in) { out[threadIdx.x] = 2 * in[threadIdx.x]; }  // SCALE
__global__ void count(int* hits) { atomicAdd(hits, 1); }  // COUNT
__global__ void fill(int* out) { out[threadIdx.x] = 1; }
static bool is(const char* word, const char* other) { return !std::strcmp(word, other); }
int main(int, char** words) {
  const char* const what = words[1];
  const bool right = words[2] != nullptr;
  int values[64] = {}, *data, *out;
  cudaMalloc(&data, sizeof values);
  cudaMemcpy(data, values, sizeof values, cudaMemcpyHostToDevice);
  cudaMalloc(&out, sizeof values);  // OUT
  for (auto& [name, kernel] : {std::pair{"reverse", reverse}, {"sum", sum}, {"by_warps", by_warps}, {"counters", counters}, {"async", copied}, {"flag", flag}, {"by_group", by_group}, {"bytes", bytes}})
    if (is(what, name)) kernel<<<2, 64, 256>>>(data, right);
  if (is(what, "never")) scale<<<1, 64>>>(data, right ? data : out);  // LAUNCH
  if (is(what, "half")) {
    cudaMemset(out, 0, sizeof values / 2);
    scale<<<1, right ? 32 : 64>>>(data, out);
  }
  if (is(what, "hits")) {
    if (right) cudaMemset(out, 0, sizeof values);
    count<<<1, 64>>>(out);
  }
  if (is(what, "copied")) {
    int* more;
    cudaMalloc(&more, sizeof values);
    if (right) fill<<<1, 64>>>(out);
    cudaMemcpy(more, out, sizeof values, cudaMemcpyDeviceToDevice);
    scale<<<1, 64>>>(data, more);
  }
  if (is(what, "host")) {
    int* more;
    cudaMalloc(&more, sizeof values);
    cudaMemcpy(values, out, sizeof values, cudaMemcpyDeviceToHost);
    std::memset(values, 0, sizeof values);
    cudaMemcpy(more, values, sizeof values, cudaMemcpyHostToDevice);
    scale<<<1, 64>>>(data, more);
  }
  return cudaDeviceSynchronize();
}
"""
RACES = {"reverse": ("turned", "READS", False), "sum": ("part", "TAKES", False), "by_warps": ("turned", "IN A WARP", False), "counters": ("counts", "HISTOGRAM", True), "async": ("turned", "OF THE COPY", False)}
UNWRITTEN = {"never": ("right ? data : out", "SCALE"), "half": ("out", "SCALE"), "hits": ("out", "COUNT"), "copied": ("more", "SCALE")}
FINE = ["flag", "by_group", "bytes", "host"]


@pytest.fixture(scope="module")
def program():
    return build_nvcc(PROGRAM, "-g", "-lineinfo", "-std=c++17", "-w", "-arch=sm_80")


@pytest.fixture
def rehearsed(program, tmp_path):
    return lambda *words, checks="all": run(program, *words, folder=tmp_path, flags=["--kernels", "--kernel-checks", checks])


@pytest.mark.parametrize("what", RACES)
def test_a_race_names_both_accesses_and_the_variable(rehearsed, what):
    variable, line, writes = RACES[what]
    outcome = rehearsed(what)
    finding = only(outcome, "shared-memory-race")
    access = finding["launch"]["access"]
    assert outcome.code == 0  # the kernel goes on, as on hardware
    assert access["variable"] == variable and access["line"]["line"] == line_of(PROGRAM, f"// {line}") and access.get("writes", False) == writes
    assert "that thread (" in access["whose"] and "program.cu:" in access["whose"] and "no barrier" in access["whose"]
    assert [operand["name"] for operand in finding["operands"]] == [variable] and finding["cause"]["category"] == "missing-barrier"
    assert "__syncthreads()" in outcome.err


def test_the_other_access_of_a_race_is_the_one_that_came_before(rehearsed):
    access = only(rehearsed("reverse"), "shared-memory-race")["launch"]["access"]
    assert "wrote before (st.shared.u32 at " in access["whose"] and f"program.cu:{line_of(PROGRAM, '// WRITES')})" in access["whose"]


def test_the_line_of_a_copy_is_the_programs_and_not_that_of_cudas_header(rehearsed):
    access = only(rehearsed("async"), "shared-memory-race")["launch"]["access"]
    assert "(cp.async.ca.shared.global at " in access["whose"] and f"program.cu:{line_of(PROGRAM, '// COPIES')})" in access["whose"]


@pytest.mark.parametrize("what", UNWRITTEN)
def test_memory_that_nothing_has_written_is_told_with_who_allocated_it(rehearsed, what):
    name, line = UNWRITTEN[what]
    outcome = rehearsed(what)
    finding = only(outcome, "uninitialized-read")
    (read,) = [operand for operand in finding["operands"] if operand.get("odd")]
    assert outcome.code == 0 and read["name"] == name and read["created"]["call"] == "cudaMalloc"
    assert finding["launch"]["access"]["line"]["line"] == line_of(PROGRAM, f"// {line}")
    assert finding["cause"]["category"] == "never-written"


def test_the_launch_is_the_line_that_is_shown(rehearsed):
    assert own(only(rehearsed("never"), "uninitialized-read"))[0]["line"] == line_of(PROGRAM, "// LAUNCH")


@pytest.mark.parametrize("what", [*RACES, *UNWRITTEN, *FINE])
def test_what_is_right_is_no_finding(rehearsed, what):
    outcome = rehearsed(what, "right")
    assert (outcome.code, outcome.findings) == (0, []), outcome.err


@pytest.mark.parametrize("what", ["reverse", "never"])
def test_without_it_only_owners_are_looked_at(rehearsed, what):
    assert rehearsed(what, checks="owner").findings == []
