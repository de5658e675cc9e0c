// A vector of Thrust's that was made before the device was chosen.
#include <thrust/device_vector.h>
#include <thrust/functional.h>
#include <thrust/transform.h>

int main() {
  const int device = 1;
#ifdef REPAIRED
  cudaSetDevice(device);
#endif
  thrust::device_vector<float> weights(1024, 1.f);  // CAUSE
  cudaSetDevice(device);
  thrust::device_vector<float> inputs(1024, 2.f);
  thrust::transform(inputs.begin(), inputs.end(), weights.begin(), inputs.begin(), thrust::multiplies<float>());  // FOUND
  return cudaDeviceSynchronize();
}
