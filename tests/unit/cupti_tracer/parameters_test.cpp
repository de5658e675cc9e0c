// The layout that follows from a function's type is that of CUPTI's own headers.
#include "cupti_tracer/parameters.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <cupti.h>
#include <gtest/gtest.h>

#include <tuple>
#include <vector>

using devtrace::cupti_tracer::call_with;
using devtrace::cupti_tracer::offsets;

namespace {

template <class... Members>
std::vector<size_t> computed() {
  const auto array = offsets<Members...>();
  return {array.begin(), array.end()};
}

}  // namespace

TEST(Parameters, LieWhereCuptiPutsThem) {
  EXPECT_EQ((computed<void*, const void*, size_t, cudaMemcpyKind, cudaStream_t>()),
            (std::vector{offsetof(cudaMemcpyAsync_v3020_params, dst), offsetof(cudaMemcpyAsync_v3020_params, src),
                         offsetof(cudaMemcpyAsync_v3020_params, count), offsetof(cudaMemcpyAsync_v3020_params, kind),
                         offsetof(cudaMemcpyAsync_v3020_params, stream)}));
  EXPECT_EQ((computed<const void*, dim3, dim3, void**, size_t, cudaStream_t>()),
            (std::vector{
                offsetof(cudaLaunchKernel_v7000_params, func), offsetof(cudaLaunchKernel_v7000_params, gridDim),
                offsetof(cudaLaunchKernel_v7000_params, blockDim), offsetof(cudaLaunchKernel_v7000_params, args),
                offsetof(cudaLaunchKernel_v7000_params, sharedMem), offsetof(cudaLaunchKernel_v7000_params, stream)}));
  EXPECT_EQ((computed<void**, cudaIpcMemHandle_t, unsigned>()),
            (std::vector{offsetof(cudaIpcOpenMemHandle_v4010_params, devPtr),
                         offsetof(cudaIpcOpenMemHandle_v4010_params, handle),
                         offsetof(cudaIpcOpenMemHandle_v4010_params, flags)}));
  EXPECT_EQ(
      (computed<void*, int, const void*, int, size_t, cudaStream_t>()),
      (std::vector{
          offsetof(cudaMemcpyPeerAsync_v4000_params, dst), offsetof(cudaMemcpyPeerAsync_v4000_params, dstDevice),
          offsetof(cudaMemcpyPeerAsync_v4000_params, src), offsetof(cudaMemcpyPeerAsync_v4000_params, srcDevice),
          offsetof(cudaMemcpyPeerAsync_v4000_params, count), offsetof(cudaMemcpyPeerAsync_v4000_params, stream)}));
}

TEST(Parameters, AreHandedOverAsTheyAre) {
  static std::tuple<void*, int, const void*, int, size_t, cudaStream_t> got;
  cudaMemcpyPeerAsync_v4000_params packed{&packed, 3, &got, 5, 7, cudaStreamPerThread};
  call_with(
      +[](void* to, int to_device, const void* from, int from_device, size_t bytes, cudaStream_t stream) {
        got = {to, to_device, from, from_device, bytes, stream};
        return cudaSuccess;
      },
      &packed);
  EXPECT_EQ(got, (std::tuple<void*, int, const void*, int, size_t, cudaStream_t>(&packed, 3, &got, 5, 7,
                                                                                 cudaStreamPerThread)));
}
