// Every way to copy: what is told of it. Some originals do not exist in the stubs (they answer "not supported"); a
// hook has told by then.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <regex>
#include <set>
#include <string>

#include "interpose/linking/original.h"
#include "tests/unit/interpose/recorder.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

using devtrace::events::Copy;
using devtrace::events::Direction;

extern "C" {
cudaError_t cudaMemcpy_ptds(void*, const void*, size_t, cudaMemcpyKind);
cudaError_t cudaMemcpyAsync_ptsz(void*, const void*, size_t, cudaMemcpyKind, cudaStream_t);
CUresult cuMemcpyHtoD_v2_ptds(CUdeviceptr, const void*, size_t);
CUresult cuMemcpyDtoHAsync_v2_ptsz(void*, CUdeviceptr, size_t, CUstream);
}

namespace {

constexpr Direction kAny = Direction::undeclared;
constexpr Direction kHtoH = Direction::host_to_host;
constexpr Direction kHtoD = Direction::host_to_device;
constexpr Direction kDtoH = Direction::device_to_host;
constexpr Direction kDtoD = Direction::device_to_device;

char host[1 << 16];
char* d0 = nullptr;  // of cuda:0
char* d1 = nullptr;
CUarray array = nullptr;  // of 64×64×4 elements of 8 bytes
CUcontext contexts[2];
cudaStream_t stream = nullptr;
CUgraph graph = nullptr;
CUgraphNode node = nullptr;
CUgraphExec exec = nullptr;
char symbol;

CUdeviceptr address(const void* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}

class Copies : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    for (const int device : {1, 0}) {
      ASSERT_EQ(cudaSetDevice(device), cudaSuccess);
      ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(device ? &d1 : &d0), 1 << 20), cudaSuccess);
      ASSERT_EQ(cuCtxGetCurrent(&contexts[device]), CUDA_SUCCESS);
    }
    CUDA_ARRAY3D_DESCRIPTOR facts{64, 64, 4, CU_AD_FORMAT_FLOAT, 2, 0};
    ASSERT_EQ(cuArray3DCreate_v2(&array, &facts), CUDA_SUCCESS);
    ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
    ASSERT_EQ(cuGraphCreate(&graph, 0), CUDA_SUCCESS);
    ASSERT_EQ(cudaGraphAddMemcpyNode1D(&node, graph, nullptr, 0, d0, host, 8, cudaMemcpyHostToDevice), cudaSuccess);
    ASSERT_EQ(cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
  }
  void SetUp() override { recorder::clear(); }
};

// One call and the one copy that it must tell.
void expect(const char* function, const std::function<int()>& call, const void* to, const void* from, size_t bytes,
            Direction direction, int to_device = -1, int from_device = -1, const void* on = nullptr) {
  SCOPED_TRACE(function);
  recorder::clear();
  call();
  ASSERT_EQ(recorder::copies.size(), 1u);
  const Copy& copy = recorder::copies.front();
  EXPECT_STREQ(copy.function, function);
  EXPECT_EQ(copy.to, to);
  EXPECT_EQ(copy.from, from);
  EXPECT_EQ(copy.bytes, bytes);
  EXPECT_EQ(copy.direction, direction);
  EXPECT_EQ(copy.to_device, to_device);
  EXPECT_EQ(copy.from_device, from_device);
  EXPECT_EQ(copy.stream, on);
}

cudaMemcpy3DParms box(bool from_array) {
  cudaMemcpy3DParms p{};
  p.dstPtr = {d0, 512, 100, 20};
  p.dstPos = {8, 3, 2};
  p.srcPtr = {host, 256, 100, 10};
  p.srcPos = {4, 2, 1};
  if (from_array) {
    p.srcArray = reinterpret_cast<cudaArray_t>(array);
    p.srcPtr = {};
  }
  p.extent = {40, 5, 2};
  p.kind = from_array ? cudaMemcpyDeviceToDevice : cudaMemcpyHostToDevice;
  return p;
}

CUDA_MEMCPY3D driver_box() {
  CUDA_MEMCPY3D p{};
  p.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  p.dstDevice = address(d0);
  p.dstPitch = 512;
  p.dstHeight = 20;
  p.dstXInBytes = 8;
  p.dstY = 3;
  p.dstZ = 2;
  p.srcMemoryType = CU_MEMORYTYPE_HOST;
  p.srcHost = host;
  p.srcPitch = 256;
  p.srcHeight = 10;
  p.srcXInBytes = 4;
  p.srcY = 2;
  p.srcZ = 1;
  p.WidthInBytes = 40;
  p.Height = 5;
  p.Depth = 2;
  return p;
}

constexpr size_t kToOffset = (2 * 20 + 3) * 512 + 8;
constexpr size_t kFromOffset = (1 * 10 + 2) * 256 + 4;
constexpr size_t kBox = 40 * 5 * 2;

}  // namespace

TEST_F(Copies, LinearOnesOfTheRuntime) {
  expect(
      "cudaMemcpy", [] { return cudaMemcpy(d0, host, 24, cudaMemcpyHostToDevice); }, d0, host, 24, kHtoD);
  expect(
      "cudaMemcpy", [] { return cudaMemcpy(d0, host, 24, cudaMemcpyDefault); }, d0, host, 24, kAny);
  expect(
      "cudaMemcpy", [] { return cudaMemcpy(host + 64, host, 24, cudaMemcpyHostToHost); }, host + 64, host, 24, kHtoH);
  expect(
      "cudaMemcpy", [] { return cudaMemcpy_ptds(host, d0, 24, cudaMemcpyDeviceToHost); }, host, d0, 24, kDtoH);
  expect(
      "cudaMemcpyAsync", [] { return cudaMemcpyAsync(d1, d0, 24, cudaMemcpyDeviceToDevice, stream); }, d1, d0, 24,
      kDtoD, -1, -1, stream);
  expect(
      "cudaMemcpyAsync", [] { return cudaMemcpyAsync_ptsz(d1, d0, 24, cudaMemcpyDefault, stream); }, d1, d0, 24, kAny,
      -1, -1, stream);
  expect(
      "cudaMemcpyPeer", [] { return cudaMemcpyPeer(d1, 1, d0, 0, 24); }, d1, d0, 24, kAny, 1, 0);
  expect(
      "cudaMemcpyPeerAsync", [] { return cudaMemcpyPeerAsync(d1, 1, d0, 0, 24, stream); }, d1, d0, 24, kAny, 1, 0,
      stream);
}

TEST_F(Copies, PitchedOnesCountTheirRowsWithoutTheGaps) {
  expect(
      "cudaMemcpy2D", [] { return cudaMemcpy2D(d0, 512, host, 100, 90, 7, cudaMemcpyHostToDevice); }, d0, host, 90 * 7,
      kHtoD);
  expect(
      "cudaMemcpy2DAsync", [] { return cudaMemcpy2DAsync(host, 100, d0, 512, 90, 7, cudaMemcpyDeviceToHost, stream); },
      host, d0, 90 * 7, kDtoH, -1, -1, stream);
  const cudaMemcpy3DParms p = box(false);
  expect(
      "cudaMemcpy3D", [&] { return cudaMemcpy3D(&p); }, d0 + kToOffset, host + kFromOffset, kBox, kHtoD);
  expect(
      "cudaMemcpy3DAsync", [&] { return cudaMemcpy3DAsync(&p, stream); }, d0 + kToOffset, host + kFromOffset, kBox,
      kHtoD, -1, -1, stream);
  cudaMemcpy3DPeerParms peer{};
  peer.srcPtr = {d1, 256, 100, 10};
  peer.srcDevice = 1;
  peer.dstPtr = {d0, 512, 100, 20};
  peer.dstDevice = 0;
  peer.extent = {40, 5, 2};
  expect(
      "cudaMemcpy3DPeer", [&] { return cudaMemcpy3DPeer(&peer); }, d0, d1, kBox, kAny, 0, 1);
  expect(
      "cudaMemcpy3DPeerAsync", [&] { return cudaMemcpy3DPeerAsync(&peer, stream); }, d0, d1, kBox, kAny, 0, 1, stream);
}

TEST_F(Copies, AnArrayHasNoAddressAndItsElementsHaveASize) {
  const auto runtime_array = reinterpret_cast<cudaArray_t>(array);
  expect(
      "cudaMemcpy2DToArray",
      [&] { return cudaMemcpy2DToArray(runtime_array, 0, 0, host, 100, 90, 7, cudaMemcpyHostToDevice); }, nullptr, host,
      90 * 7, kHtoD);
  expect(
      "cudaMemcpy2DFromArray",
      [&] { return cudaMemcpy2DFromArray(host, 100, runtime_array, 0, 0, 90, 7, cudaMemcpyDeviceToHost); }, host,
      nullptr, 90 * 7, kDtoH);
  expect(
      "cudaMemcpyToArray", [&] { return cudaMemcpyToArray(runtime_array, 0, 0, d0, 64, cudaMemcpyDeviceToDevice); },
      nullptr, d0, 64, kDtoD);
  expect(
      "cudaMemcpyFromArrayAsync",
      [&] { return cudaMemcpyFromArrayAsync(d0, runtime_array, 0, 0, 64, cudaMemcpyDeviceToDevice, stream); }, d0,
      nullptr, 64, kDtoD, -1, -1, stream);
  const cudaMemcpy3DParms p = box(true);
  expect(
      "cudaMemcpy3D", [&] { return cudaMemcpy3D(&p); }, d0 + kToOffset, nullptr, kBox * 8, kDtoD);
  expect(
      "cuMemcpyHtoA", [&] { return cuMemcpyHtoA_v2(array, 0, host, 64); }, nullptr, host, 64, kHtoD);
  expect(
      "cuMemcpyAtoHAsync", [&] { return cuMemcpyAtoHAsync_v2(host, array, 0, 64, stream); }, host, nullptr, 64, kDtoH,
      -1, -1, stream);
  expect(
      "cuMemcpyDtoA", [&] { return cuMemcpyDtoA_v2(array, 0, address(d0), 64); }, nullptr, d0, 64, kDtoD);
  expect(
      "cuMemcpyAtoD", [&] { return cuMemcpyAtoD_v2(address(d0), array, 0, 64); }, d0, nullptr, 64, kDtoD);
}

TEST_F(Copies, AVariableOfTheProgramIsTheCurrentDevices) {
  expect(
      "cudaMemcpyToSymbol", [] { return cudaMemcpyToSymbol(&symbol, d1, 4, 0, cudaMemcpyDeviceToDevice); }, nullptr, d1,
      4, kDtoD, 0, -1);
  expect(
      "cudaMemcpyFromSymbolAsync",
      [] { return cudaMemcpyFromSymbolAsync(host, &symbol, 4, 0, cudaMemcpyDeviceToHost, stream); }, host, nullptr, 4,
      kDtoH, -1, 0, stream);
}

TEST_F(Copies, TheDrivers) {
  expect(
      "cuMemcpy", [] { return cuMemcpy(address(d1), address(d0), 24); }, d1, d0, 24, kAny);
  expect(
      "cuMemcpyAsync", [] { return cuMemcpyAsync(address(d1), address(d0), 24, stream); }, d1, d0, 24, kAny, -1, -1,
      stream);
  expect(
      "cuMemcpyHtoD", [] { return cuMemcpyHtoD_v2(address(d0), host, 24); }, d0, host, 24, kHtoD);
  expect(
      "cuMemcpyHtoD", [] { return cuMemcpyHtoD_v2_ptds(address(d0), host, 24); }, d0, host, 24, kHtoD);
  expect(
      "cuMemcpyDtoH", [] { return cuMemcpyDtoH_v2(host, address(d0), 24); }, host, d0, 24, kDtoH);
  expect(
      "cuMemcpyDtoHAsync", [] { return cuMemcpyDtoHAsync_v2_ptsz(host, address(d0), 24, stream); }, host, d0, 24, kDtoH,
      -1, -1, stream);
  expect(
      "cuMemcpyDtoD", [] { return cuMemcpyDtoD_v2(address(d1), address(d0), 24); }, d1, d0, 24, kDtoD);
  expect(
      "cuMemcpyPeer", [] { return cuMemcpyPeer(address(d1), contexts[1], address(d0), contexts[0], 24); }, d1, d0, 24,
      kAny, 1, 0);
  CUDA_MEMCPY3D p = driver_box();
  expect(
      "cuMemcpy3D", [&] { return cuMemcpy3D_v2(&p); }, d0 + kToOffset, host + kFromOffset, kBox, kHtoD);
  p.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
  p.srcDevice = address(d1);
  expect(
      "cuMemcpy3D", [&] { return cuMemcpy3D_v2(&p); }, d0 + kToOffset, d1 + kFromOffset, kBox, kAny);
  CUDA_MEMCPY2D flat{};
  flat.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  flat.srcDevice = address(d0);
  flat.srcPitch = 512;
  flat.srcY = 2;
  flat.dstMemoryType = CU_MEMORYTYPE_HOST;
  flat.dstHost = host;
  flat.dstPitch = 100;
  flat.WidthInBytes = 90;
  flat.Height = 7;
  expect(
      "cuMemcpy2D", [&] { return cuMemcpy2D_v2(&flat); }, host, d0 + 1024, 90 * 7, kDtoH);
  expect(
      "cuMemcpy2DUnaligned", [&] { return cuMemcpy2DUnaligned_v2(&flat); }, host, d0 + 1024, 90 * 7, kDtoH);
  CUDA_MEMCPY3D_PEER peer{};
  peer.srcMemoryType = peer.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  peer.srcDevice = address(d0);
  peer.srcContext = contexts[0];
  peer.dstDevice = address(d1);
  peer.dstContext = contexts[1];
  peer.WidthInBytes = 64;
  peer.Height = peer.Depth = 1;
  expect(
      "cuMemcpy3DPeerAsync", [&] { return cuMemcpy3DPeerAsync(&peer, stream); }, d1, d0, 64, kDtoD, 1, 0, stream);
}

TEST_F(Copies, EachOneOfABatch) {
  void* to[] = {d0, d1, host};
  const void* from[] = {host, d0, d1};
  size_t bytes[] = {8, 16, 32};
  cudaMemcpyBatchAsync(to, from, bytes, 3, nullptr, nullptr, 0, stream);
  ASSERT_EQ(recorder::copies.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(recorder::copies[i].to, to[i]);
    EXPECT_EQ(recorder::copies[i].from, from[i]);
    EXPECT_EQ(recorder::copies[i].bytes, bytes[i]);
    EXPECT_EQ(recorder::copies[i].stream, stream);
    EXPECT_STREQ(recorder::copies[i].function, "cudaMemcpyBatchAsync");
  }
  recorder::clear();
  CUdeviceptr driver_to[] = {address(d0), address(d1)};
  CUdeviceptr driver_from[] = {address(d1), address(d0)};
  cuMemcpyBatchAsync_v2(driver_to, driver_from, bytes, 2, nullptr, nullptr, 0, stream);
  size_t failed = 0;
  cuMemcpyBatchAsync(driver_to, driver_from, bytes, 2, nullptr, nullptr, 0, &failed, stream);
  ASSERT_EQ(recorder::copies.size(), 4u);
  EXPECT_EQ(recorder::copies[3].to, d1);
  EXPECT_EQ(recorder::copies[3].stream, stream);
  cudaMemcpy3DBatchOp one{};
  one.src.type = one.dst.type = cudaMemcpyOperandTypePointer;
  one.src.op.ptr.ptr = d0;
  one.dst.op.ptr.ptr = d1;
  one.extent = {10, 20, 3};
  expect(
      "cudaMemcpy3DBatchAsync", [&] { return cudaMemcpy3DBatchAsync(1, &one, 0, stream); }, d1, d0, 600, kAny, -1, -1,
      stream);
  CUDA_MEMCPY3D_BATCH_OP driver_one{};
  driver_one.src.type = CU_MEMCPY_OPERAND_TYPE_ARRAY;
  driver_one.src.op.array.array = array;
  driver_one.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
  driver_one.dst.op.ptr.ptr = address(d1);
  driver_one.extent = {10, 20, 3};
  expect(
      "cuMemcpy3DBatchAsync", [&] { return cuMemcpy3DBatchAsync_v2(1, &driver_one, 0, stream); }, d1, nullptr, 4800,
      kAny, -1, -1, stream);
}

TEST_F(Copies, NodesOfAGraphWhenTheyAreAddedAndWhenTheyChange) {
  CUgraphNode added;
  const cudaMemcpy3DParms p = box(false);
  const CUDA_MEMCPY3D q = driver_box();
  const void* const to = d0 + kToOffset;
  const void* const from = host + kFromOffset;
  constexpr auto kKind = cudaMemcpyHostToDevice;
  expect(
      "cudaGraphAddMemcpyNode", [&] { return cudaGraphAddMemcpyNode(&added, graph, nullptr, 0, &p); }, to, from, kBox,
      kHtoD);
  expect(
      "cudaGraphMemcpyNodeSetParams", [&] { return cudaGraphMemcpyNodeSetParams(node, &p); }, to, from, kBox, kHtoD);
  expect(
      "cudaGraphExecMemcpyNodeSetParams", [&] { return cudaGraphExecMemcpyNodeSetParams(exec, node, &p); }, to, from,
      kBox, kHtoD);
  expect(
      "cudaGraphAddMemcpyNode1D",
      [&] { return cudaGraphAddMemcpyNode1D(&added, graph, nullptr, 0, d0, host, 8, kKind); }, d0, host, 8, kHtoD);
  expect(
      "cudaGraphMemcpyNodeSetParams1D", [&] { return cudaGraphMemcpyNodeSetParams1D(node, d0, host, 9, kKind); }, d0,
      host, 9, kHtoD);
  expect(
      "cudaGraphExecMemcpyNodeSetParams1D",
      [&] { return cudaGraphExecMemcpyNodeSetParams1D(exec, node, d0, host, 9, kKind); }, d0, host, 9, kHtoD);
  expect(
      "cudaGraphAddMemcpyNodeToSymbol",
      [&] { return cudaGraphAddMemcpyNodeToSymbol(&added, graph, nullptr, 0, &symbol, host, 4, 0, kKind); }, nullptr,
      host, 4, kHtoD);
  expect(
      "cudaGraphAddMemcpyNodeFromSymbol",
      [&] {
        return cudaGraphAddMemcpyNodeFromSymbol(&added, graph, nullptr, 0, d1, &symbol, 4, 0, cudaMemcpyDeviceToDevice);
      },
      d1, nullptr, 4, kDtoD);
  expect(
      "cuGraphAddMemcpyNode", [&] { return cuGraphAddMemcpyNode(&added, graph, nullptr, 0, &q, contexts[0]); }, to,
      from, kBox, kHtoD);
  expect(
      "cuGraphMemcpyNodeSetParams", [&] { return cuGraphMemcpyNodeSetParams(node, &q); }, to, from, kBox, kHtoD);
  expect(
      "cuGraphExecMemcpyNodeSetParams", [&] { return cuGraphExecMemcpyNodeSetParams(exec, node, &q, contexts[0]); }, to,
      from, kBox, kHtoD);
  cudaGraphNodeParams any{};
  any.type = cudaGraphNodeTypeMemcpy;
  any.memcpy.copyParams = p;
  expect(
      "cudaGraphAddNode", [&] { return cudaGraphAddNode(&added, graph, nullptr, nullptr, 0, &any); }, to, from, kBox,
      kHtoD);
  CUgraphNodeParams driver_any{};
  driver_any.type = CU_GRAPH_NODE_TYPE_MEMCPY;
  driver_any.memcpy.copyParams = q;
  expect(
      "cuGraphAddNode", [&] { return cuGraphAddNode_v2(&added, graph, nullptr, nullptr, 0, &driver_any); }, to, from,
      kBox, kHtoD);
}

TEST_F(Copies, WhatIsSetIsNotCopied) {
  EXPECT_EQ(cudaMemset(d0, 1, 64), cudaSuccess);
  EXPECT_EQ(cuMemsetD8_v2(address(d0), 1, 64), CUDA_SUCCESS);
  EXPECT_TRUE(recorder::copies.empty());
}
