"""What nobody computes and would be written by addresses that lie in memory: tables of pointers, structures, libraries' descriptors."""

import re
import sys

import pytest
from conftest import DEVTRACE, environment, execute
from nvcc_programs import needs_nvcc, nvcc

SOURCE = """
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

struct Sample { const float* in; float* out; int count; };
struct Batch { Sample* samples; int count; };

__global__ void by_table(float** table, int n) { table[blockIdx.x][threadIdx.x] = n; }
__global__ void by_structure(const Sample* samples) { samples[blockIdx.x].out[threadIdx.x] = samples[blockIdx.x].in[threadIdx.x]; }
__global__ void by_two_levels(Batch* batch) { batch->samples[blockIdx.x].out[threadIdx.x] = 1; }
__global__ void reads_a_table(const float* const* table, float* out) { out[threadIdx.x] = table[blockIdx.x][threadIdx.x]; }
__global__ void reads_numbers(const float* numbers, float* out, int n) {
  for (int i = 0; i < n; ++i) if (numbers[i] > 0) out = (float*)((char*)out + 4 * i), *out = numbers[i];
}

template <class T> T* device(const T* from, int count) {
  T* made;
  cudaMalloc(&made, count * sizeof(T));
  cudaMemcpy(made, from, count * sizeof(T), cudaMemcpyHostToDevice);
  return made;
}
float first(const float* from) {
  float value;
  cudaMemcpy(&value, from, 4, cudaMemcpyDeviceToHost);
  return value;
}

int main(int, char** arguments) {
  const int which = std::atoi(arguments[1]);
  const float ones[32] = {1, 1, 1, 1};
  float *in = device(ones, 32), *out = device(ones, 32), *other = device(ones, 32);
  float* const outs[] = {nullptr, out};
  float* const ins[] = {in, in};
  const Sample sample = {in, out, 32};
  if (which == 0) by_table<<<2, 1>>>(device(outs, 2), 1);
  if (which == 1) by_structure<<<1, 4>>>(device(&sample, 1));
  if (which == 2) {
    const Batch batch = {device(&sample, 1), 1};
    by_two_levels<<<1, 4>>>(device(&batch, 1));
  }
  if (which == 3) reads_a_table<<<1, 4>>>(device(ins, 2), out);
  if (which == 4) reads_numbers<<<1, 1>>>((const float*)device(ins, 2), out, 4);
  cudaDeviceSynchronize();
  std::printf("other %g in %g", first(other), first(in));
  std::fflush(stdout);
  std::printf(" out %g\\n", first(out));
}
"""
MAY, SHOULD = "may have written by an address in memory", "should have written"
# The kernel, what is said of what it writes to, of what else lies behind the address, and how many places are told.
KERNELS = [("by_table", MAY, None, 1), ("by_structure", MAY, MAY, 2), ("by_two_levels", MAY, MAY, 3), ("reads_a_table", SHOULD, None, 0), ("reads_numbers", SHOULD, None, 0)]


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reached")
    (folder / "program.cu").write_text(SOURCE)
    return nvcc(folder / "program", folder / "program.cu")


def rehearse(folder, *command, flags=()):
    return execute([DEVTRACE, "rehearse", "--gpus", 1, *flags, "--", *command], folder, environment(None))


@needs_nvcc
@pytest.mark.parametrize("number, kernel, of_out, of_in, places", [(i, *row) for i, row in enumerate(KERNELS)], ids=[row[0] for row in KERNELS])
def test_a_kernel_that_was_not_given_what_it_writes_to(program, tmp_path, number, kernel, of_out, of_in, places):
    outcome = rehearse(tmp_path, program, number)
    assert (outcome.code, outcome.out) == (0, "other 1 in 1 out 1\n"), outcome.err
    told = re.findall(r"the host reads what kernel (\w+) (.*), which this", outcome.err)
    assert told == [(kernel, of_out)], outcome.err
    counted = re.search(rf"kernel {kernel} \(launches: 1(?:, places that it may have written to by addresses in memory: (\d+))?\)", outcome.err)
    assert int(counted[1] or 0) == places, outcome.err

    poisoned = rehearse(tmp_path, program, number, flags=["--poison"])
    assert poisoned.out == f"other 1 in {'-nan' if of_in else '1'} out -nan\n", poisoned.err
    strict = rehearse(tmp_path, program, number, flags=["--strict"])
    assert strict.code == 65 and strict.out == ("" if of_in else "other 1 in 1"), strict.err


# Functions that nobody computes, beside PyTorch's operators.
LIBRARIES = """
import ctypes, torch
h, P, L = ctypes.c_void_p(), ctypes.c_void_p, ctypes.c_int64
def pointer(x): return P(x.data_ptr())
x, y, kept = (torch.ones(4, device="cuda") for _ in range(3))
sparse = ctypes.CDLL("libcusparse.so.12")
assert sparse.cusparseCreate(ctypes.byref(h)) == 0
vx, vy, m, one = P(), P(), P(), ctypes.c_float(1)
rows, columns = torch.arange(5, device="cuda", dtype=torch.int32), torch.arange(4, device="cuda", dtype=torch.int32)
assert sparse.cusparseCreateConstCsr(ctypes.byref(m), L(4), L(4), L(4), pointer(rows), pointer(columns), pointer(kept), 2, 2, 0, 0) == 0
assert sparse.cusparseCreateConstDnVec(ctypes.byref(vx), L(4), pointer(x), 0) == 0
assert sparse.cusparseCreateDnVec(ctypes.byref(vy), L(4), pointer(y), 0) == 0
assert sparse.cusparseSDDMM(h, 0, 0, ctypes.byref(one), vx, vx, ctypes.byref(one), vy, 0, 0, None) == 0
print(x.tolist(), kept.tolist(), rows.tolist())
print(y.tolist())
a, b, c, table = torch.ones(2, 2, device="cuda"), torch.ones(2, 2, device="cuda"), torch.ones(2, 2, device="cuda"), None
blas = ctypes.CDLL("libcublas.so.13")
assert blas.cublasCreate_v2(ctypes.byref(h)) == 0
ins, outs = (torch.tensor([t.data_ptr()], device="cuda") for t in (a, c))
no, two, single = (ctypes.byref(ctypes.c_int(value)) for value in (0, 2, 1))
assert blas.cublasSgemmGroupedBatched(h, no, no, two, two, two, ctypes.byref(one), pointer(ins), two, pointer(ins), two, ctypes.byref(one), pointer(outs), two, 1, single) == 0
print(a.tolist(), b.tolist())
print(c.tolist())
solver = ctypes.CDLL("libcusolver.so.12")
assert solver.cusolverDnCreate(ctypes.byref(h)) == 0
work, info, d = torch.ones(1024, device="cuda"), torch.ones(1, dtype=torch.int32, device="cuda"), torch.eye(2, device="cuda")
assert solver.cusolverDnSsytrf(h, 0, 2, pointer(d), 2, None, pointer(work), 1024, pointer(info)) == 0
print(info.tolist())
print(d.tolist())
"""


def test_what_descriptors_of_libraries_lead_to(tmp_path):
    (tmp_path / "program.py").write_text(LIBRARIES)
    outcome = rehearse(tmp_path, sys.executable, "program.py")
    assert outcome.code == 0, outcome.err
    lines = LIBRARIES.split("\n")
    told = re.findall(r"program.py:(\d+): the host reads what kernel (\w+) (.*), which", outcome.err)
    assert [(lines[int(at) - 1], name, how) for at, name, how in told] == [
        ("print(y.tolist())", "cusparseSDDMM", SHOULD), ("print(c.tolist())", "cublasSgemmGroupedBatched", MAY), ("print(d.tolist())", "cusolverDnSsytrf", SHOULD)
    ], outcome.err  # fmt: skip
