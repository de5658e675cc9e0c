#include "slab.h"

#include <cstdio>
#include <cstdlib>

void check(cudaError_t result, const char* what) {
  if (result == cudaSuccess) return;
  std::fprintf(stderr, "heat: %s: %s\n", what, cudaGetErrorString(result));
  std::exit(1);
}

static float* plate(int rows, int columns) {
  float* memory = nullptr;
  const size_t bytes = sizeof(float) * static_cast<size_t>(rows + 2) * static_cast<size_t>(columns);
  check(cudaMalloc(&memory, bytes), "allocation");
  check(cudaMemset(memory, 0, bytes), "memset");
  return memory;
}

Slab::Slab(int device, int rows, int columns) : device(device), rows(rows), columns(columns) {
  check(cudaSetDevice(device), "device");
  field = plate(rows, columns);
  next = plate(rows, columns);
  check(cudaStreamCreate(&stream), "stream");
  cublasCreate(&blas);
  cublasSetStream(blas, stream);
}

Slab::~Slab() {
  cudaSetDevice(device);
  cublasDestroy(blas);
  cudaStreamDestroy(stream);
  cudaFree(next);
  cudaFree(field);
}
