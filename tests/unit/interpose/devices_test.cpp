// The current device, and who may reach whose memory.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include "tests/unit/interpose/recorder.h"

using recorder::Peers;

namespace {

class Devices : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
    recorder::clear();
  }
};

}  // namespace

TEST_F(Devices, WhoSetsOneSaysWhich) {
  EXPECT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ(recorder::devices, std::vector{1});
  EXPECT_NE(cudaSetDevice(7), cudaSuccess);
  EXPECT_EQ(recorder::devices, std::vector{1});
}

TEST_F(Devices, AnythingElseThatMayChangeItSaysThatItHasToBeAskedFor) {
  CUcontext context;
  EXPECT_EQ(cuCtxCreate_v2(&context, 0, 1), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxPopCurrent_v2(&context), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxPushCurrent_v2(context), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxDestroy_v2(context), CUDA_SUCCESS);
  EXPECT_EQ(recorder::devices, std::vector(5, -1));
  EXPECT_EQ(recorder::resets, std::vector{1});
}

TEST_F(Devices, WhoAllowsPeersIsTold) {
  EXPECT_EQ(cudaDeviceEnablePeerAccess(1, 0), cudaSuccess);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(1, 0), cudaErrorPeerAccessAlreadyEnabled);
  EXPECT_EQ(cudaDeviceDisablePeerAccess(1), cudaSuccess);
  EXPECT_NE(cudaDeviceEnablePeerAccess(0, 0), cudaSuccess);  // itself
  EXPECT_EQ(recorder::peers, (std::vector<Peers>{{0, 1, true, true}, {0, 1, true, true}, {0, 1, false, true}}));
  recorder::clear();
  CUcontext other;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&other, 1), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxEnablePeerAccess(other, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxDisablePeerAccess(other), CUDA_SUCCESS);
  EXPECT_EQ(recorder::peers, (std::vector<Peers>{{0, 1, true, true}, {0, 1, false, true}}));
}

TEST_F(Devices, APoolsMemoryIsOfItsDevice) {
  cudaMemPool_t made;
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = {cudaMemLocationTypeDevice, 1};
  ASSERT_EQ(cudaMemPoolCreate(&made, &properties), cudaSuccess);
  const cudaMemAccessDesc access{{cudaMemLocationTypeDevice, 0}, cudaMemAccessFlagsProtReadWrite};
  EXPECT_EQ(cudaMemPoolSetAccess(made, &access, 1), cudaSuccess);
  EXPECT_EQ(recorder::peers, (std::vector<Peers>{{0, 1, true, true}}));
  recorder::clear();
  CUmemoryPool of_device;
  ASSERT_EQ(cuDeviceGetDefaultMemPool(&of_device, 0), CUDA_SUCCESS);
  const CUmemAccessDesc none{{CU_MEM_LOCATION_TYPE_DEVICE, 1}, CU_MEM_ACCESS_FLAGS_PROT_NONE};
  const CUmemAccessDesc own{{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  const CUmemAccessDesc both[] = {none, own};
  EXPECT_EQ(cuMemPoolSetAccess(of_device, both, 2), CUDA_SUCCESS);
  EXPECT_EQ(recorder::peers, (std::vector<Peers>{{1, 0, false, true}}));  // its own device is no peer
}

TEST_F(Devices, MappedMemoryIsOfTheDeviceWhereItLies) {
  constexpr size_t kSize = 2 << 20;
  CUdeviceptr address;
  CUmemGenericAllocationHandle handle;
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 1};
  ASSERT_EQ(cuMemCreate(&handle, kSize, &properties, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAddressReserve(&address, kSize, 0, 0, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemMap(address, kSize, 0, handle, 0), CUDA_SUCCESS);
  const CUmemAccessDesc accesses[] = {{{CU_MEM_LOCATION_TYPE_DEVICE, 1}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
                                      {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE}};
  EXPECT_EQ(cuMemSetAccess(address, kSize, accesses, 2), CUDA_SUCCESS);
  EXPECT_EQ(recorder::peers, (std::vector<Peers>{{0, 1, true, true}}));
}
