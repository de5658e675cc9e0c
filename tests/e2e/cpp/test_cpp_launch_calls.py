"""A kernel that a C++ program launches by a call of cudaLaunchKernel and the like: its parameters have their names all the same."""

import pytest
from conftest import only
from cpp_programs import run
from nvcc_programs import needs_nvcc, nvcc

SOURCE = """
#include <cuda_runtime.h>

template <class T>
__global__ void add(const T* left, T* right, int count) {
  if (threadIdx.x < count) right[threadIdx.x] += left[threadIdx.x];
}

int main() {
  float *a, *b;
  cudaSetDevice(1);
  cudaMalloc(&a, 256);
  cudaSetDevice(0);
  cudaMalloc(&b, 256);
  int count = 64;
  void* arguments[] = {&a, &b, &count};
  CALL((void*)add<float>, dim3(1), dim3(64), arguments, 0, 0);
}
"""


@needs_nvcc
@pytest.mark.parametrize("call", ["cudaLaunchKernel", "cudaLaunchCooperativeKernel"])
def test_parameters_have_the_names_of_the_declaration(tmp_path, call):
    program = tmp_path / "program.cu"
    program.write_text(SOURCE.replace("CALL", call))
    finding = only(run(nvcc(tmp_path / "program", program, flags=["-g"]), folder=tmp_path), "remote-access")
    assert [(one["type"], one["parameter_name"]) for one in finding["operands"]] == [("float const*", "left"), ("float*", "right")]
