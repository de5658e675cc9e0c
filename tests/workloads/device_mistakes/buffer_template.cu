// A buffer of a template library is a member of a solver, and is made before the solver's constructor chooses its device.
#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <cstddef>

template <class T>
class Buffer {
 public:
  explicit Buffer(size_t count) { cudaMalloc(&data_, count * sizeof(T)); }
  ~Buffer() { cudaFree(data_); }
  T* get() const { return data_; }

 private:
  T* data_ = nullptr;
};

struct Solver {
  explicit Solver(int device) : device(device) {
    cudaSetDevice(device);
    cublasCreate(&blas);
    cudaMalloc(&matrix, 64 * 64 * sizeof(float));
    cudaMalloc(&result, 64 * sizeof(float));
  }

  cublasStatus_t apply(const Buffer<float>& input) {
    const float one = 1, zero = 0;
    return cublasSgemv(blas, CUBLAS_OP_N, 64, 64, &one, matrix, 64, input.get(), 1, &zero, result, 1);  // FOUND
  }

  int device;
  cublasHandle_t blas = nullptr;
  float *matrix = nullptr, *result = nullptr;
};

int main() {
  const int device = 1;
#ifdef REPAIRED
  cudaSetDevice(device);
#endif
  Buffer<float> input(64);  // CAUSE
  Solver solver(device);
  solver.apply(input);
  return cudaDeviceSynchronize();
}
