// What kernels.cu's kernels do, a thread after the other.
#pragma once

namespace on_host {

void add(float* out, const float* a, const float* b, int count);
void reduce(float* out, const float* in, int count);  // each 256 by halves
void matmul(float* out, const float* a, const float* b, int n);
void histogram(unsigned* out, const unsigned* in, int count);

}  // namespace on_host
