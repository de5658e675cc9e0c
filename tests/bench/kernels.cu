// Kernels that a rehearsal computes, and the same work as plain loops: processor time of both. Printed: name, threads of the grid, seconds.
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

#include "kernels_on_host.h"

namespace {

double processor_time() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

__global__ void add(float* out, const float* a, const float* b) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = a[i] + b[i];
}

__global__ void reduce(float* out, const float* in) {
  __shared__ float part[256];
  part[threadIdx.x] = in[blockIdx.x * 256 + threadIdx.x];
  for (int half = 128; half; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
  }
  if (!threadIdx.x) out[blockIdx.x] = part[0];
}

// Tiles of 16 by 16.
__global__ void matmul(float* out, const float* a, const float* b, int n) {
  __shared__ float x[16][16], y[16][16];
  const int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
  float sum = 0;
  for (int at = 0; at < n; at += 16) {
    x[threadIdx.y][threadIdx.x] = a[row * n + at + threadIdx.x];
    y[threadIdx.y][threadIdx.x] = b[(at + threadIdx.y) * n + column];
    __syncthreads();
    for (int k = 0; k < 16; ++k) sum += x[threadIdx.y][k] * y[k][threadIdx.x];
    __syncthreads();
  }
  out[row * n + column] = sum;
}

__global__ void histogram(unsigned* out, const unsigned* in) {
  __shared__ unsigned part[256];
  part[threadIdx.x] = 0;
  __syncthreads();
  atomicAdd(&part[in[blockIdx.x * 256 + threadIdx.x] & 255], 1u);
  __syncthreads();
  atomicAdd(&out[threadIdx.x], part[threadIdx.x]);
}

template <class T>
T* on_device(const std::vector<T>& values) {
  T* memory = nullptr;
  cudaMalloc(&memory, values.size() * sizeof(T));
  cudaMemcpy(memory, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice);
  return memory;
}

// Once to have it decoded, once for the time. Ends the program where the results differ.
template <class T, class Launch, class Loops>
void compare(const char* name, int threads, T* device, std::vector<T>& host, const Launch& launch, const Loops& loops) {
  launch();
  cudaDeviceSynchronize();
  cudaMemset(device, 0, host.size() * sizeof(T));
  double begin = processor_time();
  launch();
  cudaDeviceSynchronize();
  const double kernel = processor_time() - begin;
  begin = processor_time();
  loops(host.data());
  const double plain = processor_time() - begin;
  std::vector<T> found(host.size());
  cudaMemcpy(found.data(), device, host.size() * sizeof(T), cudaMemcpyDeviceToHost);
  for (size_t i = 0; i < host.size(); ++i)
    if (found[i] != host[i]) std::printf("%s differs at %zu\n", name, i), std::exit(1);
  std::printf("%s %d %.9f %.9f\n", name, threads, kernel, plain);
}

}  // namespace

int main() {
  constexpr int kCount = 1 << 20, kSide = 512;
  std::vector<float> a(kCount), b(kCount), sums(kCount), parts(kCount / 256), product(kSide * kSide);
  std::vector<unsigned> keys(kCount), counts(256);
  for (int i = 0; i < kCount; ++i) {
    a[i] = static_cast<float>(i % 7);
    b[i] = static_cast<float>(i % 5);
    keys[i] = static_cast<unsigned>(i) * 2654435761u >> 16;
  }
  const float *da = on_device(a), *db = on_device(b);
  const unsigned* dkeys = on_device(keys);
  float *dsums = on_device(sums), *dparts = on_device(parts), *dproduct = on_device(product);
  unsigned* dcounts = on_device(counts);
  compare("vector add", kCount, dsums, sums, [&] { add<<<kCount / 256, 256>>>(dsums, da, db); },
          [&](float* out) { on_host::add(out, a.data(), b.data(), kCount); });
  compare("reduction", kCount, dparts, parts, [&] { reduce<<<kCount / 256, 256>>>(dparts, da); },
          [&](float* out) { on_host::reduce(out, a.data(), kCount); });
  compare("matmul 512", kSide * kSide, dproduct, product,
          [&] { matmul<<<dim3(kSide / 16, kSide / 16), dim3(16, 16)>>>(dproduct, da, db, kSide); },
          [&](float* out) { on_host::matmul(out, a.data(), b.data(), kSide); });
  compare("histogram", kCount, dcounts, counts, [&] { histogram<<<kCount / 256, 256>>>(dcounts, dkeys); },
          [&](unsigned* out) { on_host::histogram(out, keys.data(), kCount); });
  return 0;
}
