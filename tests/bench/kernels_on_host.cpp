#include "kernels_on_host.h"

namespace on_host {

void add(float* out, const float* a, const float* b, int count) {
  for (int i = 0; i < count; ++i) out[i] = a[i] + b[i];
}

void reduce(float* out, const float* in, int count) {
  for (int block = 0; block < count / 256; ++block) {
    float part[256];
    for (int i = 0; i < 256; ++i) part[i] = in[block * 256 + i];
    for (int half = 128; half; half /= 2)
      for (int i = 0; i < half; ++i) part[i] += part[i + half];
    out[block] = part[0];
  }
}

void matmul(float* out, const float* a, const float* b, int n) {
  for (int row = 0; row < n; ++row)
    for (int column = 0; column < n; ++column) {
      float sum = 0;
      for (int k = 0; k < n; ++k) sum += a[row * n + k] * b[k * n + column];
      out[row * n + column] = sum;
    }
}

void histogram(unsigned* out, const unsigned* in, int count) {
  for (int i = 0; i < count; ++i) ++out[in[i] & 255];
}

}  // namespace on_host
