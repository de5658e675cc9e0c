// A part of the plate: some rows of it, on one device, with a row of each neighbour's at both ends.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime.h>

struct Slab {
  Slab(int device, int rows, int columns);
  ~Slab();
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;

  int device, rows, columns;
  float* field = nullptr;  // rows + 2 of them
  float* next = nullptr;
  cudaStream_t stream = nullptr;
  cublasHandle_t blas = nullptr;
};

// Ends the program with a message if a call of CUDA's has failed.
void check(cudaError_t result, const char* what);
