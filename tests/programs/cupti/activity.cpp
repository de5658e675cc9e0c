// Records of what devices did, in the structures of the real headers.
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>

#include "tests/programs/cupti/subscriber.h"
#include "tests/unit/simulate/kernels.h"

namespace {

#if CUPTI_API_VERSION >= 130000
using KernelRecord = CUpti_ActivityKernel10;
#else
using KernelRecord = CUpti_ActivityKernel9;
#endif

// How large the buffers are that the profiler supplies; none: 0. And what came back.
size_t g_size = 1 << 16, g_most = 0;
int g_requested = 0, g_completed = 0;
std::vector<std::vector<uint8_t>> g_buffers;

void request(uint8_t** buffer, size_t* size, size_t* most) {
  ++g_requested;
  *buffer = g_size ? static_cast<uint8_t*>(std::aligned_alloc(8, g_size)) : nullptr;
  *size = g_size;
  *most = g_most;
}
void complete(CUcontext context, uint32_t stream, uint8_t* buffer, size_t size, size_t valid) {
  ++g_completed;
  EXPECT_EQ(context, nullptr);
  EXPECT_EQ(stream, 0u);
  EXPECT_EQ(size, g_size);
  EXPECT_LE(valid, size);
  g_buffers.emplace_back(buffer, buffer + valid);
  std::free(buffer);
}

// All records so far, the oldest first; they live in g_buffers.
std::vector<const CUpti_Activity*> records() {
  EXPECT_EQ(cuptiActivityFlushAll(0), CUPTI_SUCCESS);
  std::vector<const CUpti_Activity*> found;
  for (auto& buffer : g_buffers) {
    CUpti_Activity* record = nullptr;
    CUptiResult e;
    if (buffer.empty()) continue;
    while ((e = cuptiActivityGetNextRecord(buffer.data(), buffer.size(), &record)) == CUPTI_SUCCESS)
      found.push_back(record);
    EXPECT_EQ(e, CUPTI_ERROR_MAX_LIMIT_REACHED);
  }
  return found;
}

template <typename T>
std::vector<const T*> records_of(CUpti_ActivityKind kind) {
  std::vector<const T*> found;
  for (const CUpti_Activity* r : records())
    if (r->kind == kind) found.push_back(reinterpret_cast<const T*>(r));
  return found;
}

class Activity : public testing::Test {
 protected:
  void SetUp() override {
    EXPECT_EQ(cuptiActivityFlushAll(0), CUPTI_ERROR_INVALID_OPERATION);
    EXPECT_EQ(cuptiActivityRegisterCallbacks(request, nullptr), CUPTI_ERROR_INVALID_PARAMETER);
    ASSERT_EQ(cuptiActivityRegisterCallbacks(request, complete), CUPTI_SUCCESS);
    for (int d = 1; d >= 0; --d) {
      ASSERT_EQ(cudaSetDevice(d), cudaSuccess);
      ASSERT_EQ(cudaMalloc(&at_[d], 1 << 20), cudaSuccess);
      ASSERT_EQ(cuCtxGetCurrent(&context_[d]), CUDA_SUCCESS);
      ASSERT_EQ(cuptiGetContextId(context_[d], &number_[d]), CUPTI_SUCCESS);
    }
    ASSERT_EQ(cudaStreamCreate(&stream_), cudaSuccess);
    ASSERT_EQ(cuptiGetStreamId(context_[0], stream_, &stream_number_), CUPTI_SUCCESS);
  }
  void enable(CUpti_ActivityKind kind) { EXPECT_EQ(cuptiActivityEnable(kind), CUPTI_SUCCESS); }

  void* at_[2];
  CUcontext context_[2];
  uint32_t number_[2], stream_number_;
  cudaStream_t stream_;
};

}  // namespace

TEST_F(Activity, ACopyBetweenDevices) {
  Subscriber s;
  s.runtime(RUNTIME(cudaMemcpyPeerAsync_v4000));
  enable(CUPTI_ACTIVITY_KIND_MEMCPY);
  enable(CUPTI_ACTIVITY_KIND_MEMCPY2);
  uint64_t before, after;
  EXPECT_EQ(cuptiGetTimestamp(&before), CUPTI_SUCCESS);
  ASSERT_EQ(cudaMemcpyPeerAsync(at_[1], 1, at_[0], 0, 1 << 20, stream_), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(at_[0], at_[1], 1000, cudaMemcpyDefault), cudaSuccess);
  EXPECT_EQ(cuptiGetTimestamp(&after), CUPTI_SUCCESS);
  auto found = records_of<CUpti_ActivityMemcpyPtoP4>(CUPTI_ACTIVITY_KIND_MEMCPY2);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(records().size(), 2u);  // one record a copy, not one of each kind
  const CUpti_ActivityMemcpyPtoP4& r = *found[0];
  EXPECT_EQ(r.copyKind, CUPTI_ACTIVITY_MEMCPY_KIND_PTOP);
  EXPECT_EQ(r.srcKind, CUPTI_ACTIVITY_MEMORY_KIND_DEVICE);
  EXPECT_EQ(r.dstKind, CUPTI_ACTIVITY_MEMORY_KIND_DEVICE);
  EXPECT_EQ(r.flags, CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC);
  EXPECT_EQ(r.bytes, uint64_t{1} << 20);
  EXPECT_GE(r.start, before);
  EXPECT_GT(r.end, r.start);
  EXPECT_LE(r.end, after);
  EXPECT_GE(found[1]->start, r.end);
  EXPECT_EQ(r.deviceId, 0u);
  EXPECT_EQ(r.contextId, number_[0]);
  EXPECT_EQ(r.streamId, stream_number_);
  EXPECT_EQ(r.srcDeviceId, 0u);
  EXPECT_EQ(r.srcContextId, number_[0]);
  EXPECT_EQ(r.dstDeviceId, 1u);
  EXPECT_EQ(r.dstContextId, number_[1]);
  ASSERT_EQ(s.events().size(), 2u);
  EXPECT_EQ(r.correlationId, s.events()[0].correlation);
  EXPECT_EQ(found[1]->flags, 0);  // cudaMemcpy waits
  EXPECT_EQ(found[1]->srcDeviceId, 1u);
  EXPECT_EQ(found[1]->dstDeviceId, 0u);
  EXPECT_EQ(found[1]->bytes, 1000u);
  EXPECT_GT(found[1]->correlationId, r.correlationId);
}

// As on hardware: records of one kind that never come without the other's.
TEST_F(Activity, CopiesBetweenDevicesNeedBothKinds) {
  enable(CUPTI_ACTIVITY_KIND_MEMCPY2);
  cudaMemcpyPeer(at_[1], 1, at_[0], 0, 8);
  EXPECT_EQ(records().size(), 0u);
  EXPECT_EQ(cuptiActivityDisable(CUPTI_ACTIVITY_KIND_MEMCPY2), CUPTI_SUCCESS);
  enable(CUPTI_ACTIVITY_KIND_MEMCPY);
  cudaMemcpyPeer(at_[1], 1, at_[0], 0, 8);
  EXPECT_EQ(records().size(), 0u);
  EXPECT_EQ(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_COUNT), CUPTI_ERROR_INVALID_KIND);
}

TEST_F(Activity, CopiesWithTheHost) {
  void *pinned, *managed;
  char pageable[64] = {};
  ASSERT_EQ(cudaMallocHost(&pinned, 64), cudaSuccess);
  ASSERT_EQ(cudaMallocManaged(&managed, 64, cudaMemAttachGlobal), cudaSuccess);
  enable(CUPTI_ACTIVITY_KIND_MEMCPY);
  cudaMemcpyAsync(at_[0], pageable, 10, cudaMemcpyHostToDevice, stream_);
  cudaMemcpy(pinned, at_[0], 20, cudaMemcpyDeviceToHost);
  cudaMemcpy(at_[0], static_cast<char*>(at_[0]) + 100, 30, cudaMemcpyDeviceToDevice);
  cudaMemcpy2D(at_[0], 32, pageable, 16, 8, 3, cudaMemcpyHostToDevice);
  cudaMemcpy(pageable, pinned, 40, cudaMemcpyHostToHost);
  cuMemcpyDtoH(pageable, reinterpret_cast<CUdeviceptr>(at_[0]), 50);
  const struct {
    uint8_t kind, from, to, flags;
    uint64_t bytes;
  } expected[] = {
      {CUPTI_ACTIVITY_MEMCPY_KIND_HTOD, CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE, CUPTI_ACTIVITY_MEMORY_KIND_DEVICE, 1, 10},
      {CUPTI_ACTIVITY_MEMCPY_KIND_DTOH, CUPTI_ACTIVITY_MEMORY_KIND_DEVICE, CUPTI_ACTIVITY_MEMORY_KIND_PINNED, 0, 20},
      {CUPTI_ACTIVITY_MEMCPY_KIND_DTOD, CUPTI_ACTIVITY_MEMORY_KIND_DEVICE, CUPTI_ACTIVITY_MEMORY_KIND_DEVICE, 0, 30},
      {CUPTI_ACTIVITY_MEMCPY_KIND_HTOD, CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE, CUPTI_ACTIVITY_MEMORY_KIND_DEVICE, 0, 24},
      {CUPTI_ACTIVITY_MEMCPY_KIND_HTOH, CUPTI_ACTIVITY_MEMORY_KIND_PINNED, CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE, 0, 40},
      {CUPTI_ACTIVITY_MEMCPY_KIND_DTOH, CUPTI_ACTIVITY_MEMORY_KIND_DEVICE, CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE, 0, 50},
  };
  auto found = records_of<CUpti_ActivityMemcpy6>(CUPTI_ACTIVITY_KIND_MEMCPY);
  ASSERT_EQ(found.size(), std::size(expected));
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i]->copyKind, expected[i].kind) << i;
    EXPECT_EQ(found[i]->srcKind, expected[i].from) << i;
    EXPECT_EQ(found[i]->dstKind, expected[i].to) << i;
    EXPECT_EQ(found[i]->flags, expected[i].flags) << i;
    EXPECT_EQ(found[i]->bytes, expected[i].bytes) << i;
    EXPECT_GT(found[i]->end, found[i]->start) << i;
  }
}

TEST_F(Activity, KernelsFillsAndCalls) {
  CUmodule module;
  CUfunction f;
  ASSERT_EQ(cuModuleLoadData(&module, kKernels), CUDA_SUCCESS);
  ASSERT_EQ(cuModuleGetFunction(&f, module, "nothing"), CUDA_SUCCESS);
  enable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  enable(CUPTI_ACTIVITY_KIND_MEMSET);
  enable(CUPTI_ACTIVITY_KIND_RUNTIME);
  enable(CUPTI_ACTIVITY_KIND_DRIVER);
  enable(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION);
  uint64_t popped = 0;
  EXPECT_EQ(cuptiActivityPushExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, 77), CUPTI_SUCCESS);
  ASSERT_EQ(cuLaunchKernel(f, 2, 3, 4, 5, 6, 7, 128, stream_, nullptr, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cuptiActivityPopExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, &popped), CUPTI_SUCCESS);
  EXPECT_EQ(popped, 77u);
  EXPECT_EQ(cuptiActivityPopExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, &popped),
            CUPTI_ERROR_QUEUE_EMPTY);
  ASSERT_EQ(cudaMemset(at_[0], 9, 100), cudaSuccess);
  ASSERT_NE(cudaSetDevice(5), cudaSuccess);
  ASSERT_EQ(cuModuleUnload(module), CUDA_SUCCESS);  // names outlive their kernels

  auto kernels = records_of<KernelRecord>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_STREQ(kernels[0]->name, "nothing");
  EXPECT_EQ(kernels[0]->gridX, 2);
  EXPECT_EQ(kernels[0]->gridZ, 4);
  EXPECT_EQ(kernels[0]->blockY, 6);
  EXPECT_EQ(kernels[0]->dynamicSharedMemory, 128);
  EXPECT_EQ(kernels[0]->streamId, stream_number_);
  EXPECT_EQ(kernels[0]->contextId, number_[0]);
  auto external = records_of<CUpti_ActivityExternalCorrelation>(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION);
  ASSERT_EQ(external.size(), 1u);
  EXPECT_EQ(external[0]->externalId, 77u);
  EXPECT_EQ(external[0]->correlationId, kernels[0]->correlationId);
  auto fills = records_of<CUpti_ActivityMemset4>(CUPTI_ACTIVITY_KIND_MEMSET);
  ASSERT_EQ(fills.size(), 1u);
  EXPECT_EQ(fills[0]->value, 9u);
  EXPECT_EQ(fills[0]->bytes, 100u);
  EXPECT_EQ(fills[0]->flags, 0);
  auto runtime = records_of<CUpti_ActivityAPI>(CUPTI_ACTIVITY_KIND_RUNTIME);
  ASSERT_EQ(runtime.size(), 2u);
  EXPECT_EQ(runtime[0]->cbid, RUNTIME(cudaMemset_v3020));
  EXPECT_EQ(runtime[0]->correlationId, fills[0]->correlationId);
  EXPECT_EQ(runtime[0]->returnValue, 0u);
  EXPECT_LE(runtime[0]->start, fills[0]->start);
  EXPECT_GE(runtime[0]->end, fills[0]->end);
  EXPECT_EQ(runtime[1]->cbid, RUNTIME(cudaSetDevice_v3020));
  EXPECT_EQ(runtime[1]->returnValue, static_cast<uint32_t>(cudaErrorInvalidDevice));
  // The driver's calls inside a runtime call have no record of their own.
  auto driver = records_of<CUpti_ActivityAPI>(CUPTI_ACTIVITY_KIND_DRIVER);
  ASSERT_EQ(driver.size(), 2u);
  EXPECT_EQ(driver[0]->cbid, DRIVER(cuLaunchKernel));
  EXPECT_EQ(driver[0]->correlationId, kernels[0]->correlationId);
  EXPECT_EQ(driver[1]->cbid, DRIVER(cuModuleUnload));
}

TEST_F(Activity, WhatAGraphDoesIsItsLaunchs) {
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal), cudaSuccess);
  ASSERT_EQ(cudaMemcpyPeerAsync(at_[1], 1, at_[0], 0, 64, stream_), cudaSuccess);
  ASSERT_EQ(cudaMemcpyPeerAsync(at_[0], 0, at_[1], 1, 32, stream_), cudaSuccess);
  ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  Subscriber s;
  s.runtime(RUNTIME(cudaGraphLaunch_v10000));
  enable(CUPTI_ACTIVITY_KIND_MEMCPY);
  enable(CUPTI_ACTIVITY_KIND_MEMCPY2);
  for (int i = 0; i < 2; ++i) ASSERT_EQ(cudaGraphLaunch(exec, stream_), cudaSuccess);
  auto found = records_of<CUpti_ActivityMemcpyPtoP4>(CUPTI_ACTIVITY_KIND_MEMCPY2);
  ASSERT_EQ(found.size(), 4u);
  EXPECT_EQ(found[0]->correlationId, s.events()[0].correlation);
  EXPECT_EQ(found[1]->correlationId, s.events()[0].correlation);
  EXPECT_EQ(found[3]->correlationId, s.events()[2].correlation);
  EXPECT_EQ(found[0]->bytes, 64u);
  EXPECT_EQ(found[3]->bytes, 32u);
}

// Behind a host function a stream's work is done by another thread, which was in no call.
TEST_F(Activity, WorkThatIsDoneLaterIsItsCalls) {
  Subscriber s;
  s.runtime(RUNTIME(cudaMemcpyPeerAsync_v4000));
  enable(CUPTI_ACTIVITY_KIND_MEMCPY);
  enable(CUPTI_ACTIVITY_KIND_MEMCPY2);
  static std::atomic<bool> go{false};
  go = false;
  ASSERT_EQ(cudaLaunchHostFunc(
                stream_,
                [](void*) {
                  while (!go) std::this_thread::yield();
                },
                nullptr),
            cudaSuccess);
  ASSERT_EQ(cudaMemcpyPeerAsync(at_[1], 1, at_[0], 0, 64, stream_), cudaSuccess);
  EXPECT_EQ(records().size(), 0u);
  go = true;
  ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  auto found = records_of<CUpti_ActivityMemcpyPtoP4>(CUPTI_ACTIVITY_KIND_MEMCPY2);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0]->correlationId, s.events()[0].correlation);
}

TEST_F(Activity, BuffersAreHandedBackWhenFullAndAtAFlush) {
  enable(CUPTI_ACTIVITY_KIND_MEMSET);
  g_size = 3 * sizeof(CUpti_ActivityMemset4) + 8;
  for (int i = 0; i < 7; ++i) cudaMemset(at_[0], i, 8);
  EXPECT_EQ(g_requested, 3);
  EXPECT_EQ(g_completed, 2);
  auto found = records_of<CUpti_ActivityMemset4>(CUPTI_ACTIVITY_KIND_MEMSET);
  EXPECT_EQ(g_completed, 3);
  ASSERT_EQ(found.size(), 7u);
  for (size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i]->value, i);

  g_buffers.clear();
  g_size = 1 << 16;
  g_most = 2;
  g_completed = 0;
  for (int i = 0; i < 4; ++i) cudaMemset(at_[0], i, 8);
  EXPECT_EQ(g_completed, 2);
  EXPECT_EQ(records().size(), 4u);
}

TEST_F(Activity, WithoutBuffersRecordsAreDroppedAndCounted) {
  enable(CUPTI_ACTIVITY_KIND_MEMSET);
  size_t dropped = 9;
  g_size = 0;
  for (int i = 0; i < 5; ++i) cudaMemset(at_[0], i, 8);
  EXPECT_EQ(cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped), CUPTI_SUCCESS);
  EXPECT_EQ(dropped, 5u);
  EXPECT_EQ(cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped), CUPTI_SUCCESS);
  EXPECT_EQ(dropped, 0u);
  g_size = 1 << 16;
  cudaMemset(at_[0], 1, 8);
  EXPECT_EQ(records().size(), 1u);
  EXPECT_EQ(cuptiFinalize(), CUPTI_SUCCESS);
  cudaMemset(at_[0], 1, 8);
  EXPECT_EQ(records().size(), 1u);
}

TEST_F(Activity, TheProfilersOwnClock) {
  enable(CUPTI_ACTIVITY_KIND_MEMSET);
  EXPECT_EQ(cuptiActivityRegisterTimestampCallback(nullptr), CUPTI_ERROR_INVALID_PARAMETER);
  EXPECT_EQ(cuptiActivityRegisterTimestampCallback([]() -> uint64_t {
              static std::atomic<uint64_t> ticks{1000};
              return ++ticks;
            }),
            CUPTI_SUCCESS);
  cudaMemset(at_[0], 1, 8);
  auto found = records_of<CUpti_ActivityMemset4>(CUPTI_ACTIVITY_KIND_MEMSET);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_GT(found[0]->start, 1000u);
  EXPECT_GT(found[0]->end, found[0]->start);
  EXPECT_LT(found[0]->end, 1100u);
}

TEST_F(Activity, FromManyThreads) {
  enable(CUPTI_ACTIVITY_KIND_MEMSET);
  g_size = 8 * sizeof(CUpti_ActivityMemset4);
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) cudaMemset(at_[0], i, 8);
    });
  for (std::thread& t : threads) t.join();
  std::map<uint32_t, int> calls;
  for (auto* r : records_of<CUpti_ActivityMemset4>(CUPTI_ACTIVITY_KIND_MEMSET)) ++calls[r->correlationId];
  EXPECT_EQ(calls.size(), 1600u);
  EXPECT_EQ(g_requested, g_completed);
}
