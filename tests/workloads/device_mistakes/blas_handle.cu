// A handle that was made before the device was chosen, as a member of a context.
#include <cublas_v2.h>
#include <cuda_runtime.h>

struct Context {
  int device = 0;
  cublasHandle_t blas = nullptr;
  explicit Context(int device) : device(device) {
#ifdef REPAIRED
    cudaSetDevice(device);
    cublasCreate(&blas);
#else
    cublasCreate(&blas);  // CAUSE
    cudaSetDevice(device);
#endif
  }
  ~Context() { cublasDestroy(blas); }
};

static void multiply(const Context& context, const float* a, const float* b, float* c, int n) {
  const float one = 1, zero = 0;
  cublasSgemm(context.blas, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, a, n, b, n, &zero, c, n);  // FOUND
}

int main() {
  const int n = 16;
  Context context(1);
  float *a, *b, *c;
  cudaMalloc(&a, n * n * sizeof(float));
  cudaMalloc(&b, n * n * sizeof(float));
  cudaMalloc(&c, n * n * sizeof(float));
  cudaMemset(a, 0, n * n * sizeof(float));
  cudaMemset(b, 0, n * n * sizeof(float));
  multiply(context, a, b, c, n);
  return cudaDeviceSynchronize();
}
