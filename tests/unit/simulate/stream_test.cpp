// Streams, events, host functions and graphs of the simulated runtime.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/unit/simulate/on_a_stream.h"

namespace {

class Stream : public OnAStream {
 protected:
  int first() { return at(0); }
};

TEST_F(Stream, WorkBehindAHostFunctionWaitsForIt) {
  Gate gate;
  ASSERT_EQ(cudaLaunchHostFunc(stream_, Gate::wait, &gate), cudaSuccess);
  ASSERT_EQ(cudaMemsetAsync(device_, 1, 4, stream_), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(stream_), cudaErrorNotReady);
  EXPECT_EQ(first(), 0);
  gate.open = true;
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_TRUE(gate.passed);
  EXPECT_EQ(first(), 0x01010101);
  EXPECT_EQ(cudaStreamQuery(stream_), cudaSuccess);
}

TEST_F(Stream, AnEventHoldsAnotherStreamBack) {
  Gate gate;
  cudaStream_t second;
  cudaEvent_t event;
  ASSERT_EQ(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaEventCreate(&event), cudaSuccess);
  ASSERT_EQ(cudaLaunchHostFunc(stream_, Gate::wait, &gate), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event, stream_), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(second, event, 0), cudaSuccess);
  ASSERT_EQ(cudaMemsetAsync(device_, 2, 4, second), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
  EXPECT_EQ(first(), 0);
  gate.open = true;
  EXPECT_EQ(cudaStreamSynchronize(second), cudaSuccess);
  EXPECT_EQ(first(), 0x02020202);
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(second), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(second), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
}

TEST_F(Stream, AnEventMayGoWhileStreamsHaveYetToComeToIt) {
  Gate gate;
  cudaStream_t second;
  cudaEvent_t event;
  ASSERT_EQ(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaEventCreate(&event), cudaSuccess);
  ASSERT_EQ(cudaLaunchHostFunc(stream_, Gate::wait, &gate), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event, stream_), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(second, event, 0), cudaSuccess);
  ASSERT_EQ(cudaMemsetAsync(device_, 2, 4, second), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess) << "waits for nothing";
  EXPECT_FALSE(gate.passed);
  gate.open = true;
  EXPECT_EQ(cudaStreamSynchronize(second), cudaSuccess);
  EXPECT_EQ(first(), 0x02020202);
  EXPECT_EQ(cudaStreamDestroy(second), cudaSuccess);
}

TEST_F(Stream, EventsMeasureTime) {
  cudaEvent_t start, end;
  ASSERT_EQ(cudaEventCreate(&start), cudaSuccess);
  ASSERT_EQ(cudaEventCreate(&end), cudaSuccess);
  float ms = -1;
  EXPECT_EQ(cudaEventElapsedTime(&ms, start, end), cudaErrorInvalidResourceHandle) << "never recorded";
  ASSERT_EQ(cudaEventRecord(start, stream_), cudaSuccess);
  ASSERT_EQ(cudaEventSynchronize(start), cudaSuccess);
  std::this_thread::sleep_for(std::chrono::milliseconds(3));
  ASSERT_EQ(cudaEventRecord(end, stream_), cudaSuccess);
  ASSERT_EQ(cudaEventSynchronize(end), cudaSuccess);
  ASSERT_EQ(cudaEventElapsedTime(&ms, start, end), cudaSuccess);
  EXPECT_GE(ms, 3.0f);
  cudaEvent_t other;
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  ASSERT_EQ(cudaEventCreate(&other), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(other, stream_), cudaErrorInvalidResourceHandle) << "another device's event";
}

TEST_F(Stream, DefaultStreamWaitsForBlockingStreams) {
  Gate gate;
  cudaStream_t blocking;
  ASSERT_EQ(cudaStreamCreate(&blocking), cudaSuccess);
  ASSERT_EQ(cudaLaunchHostFunc(blocking, Gate::wait, &gate), cudaSuccess);
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    gate.open = true;
  });
  ASSERT_EQ(cudaMemsetAsync(device_, 3, 4, nullptr), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
  EXPECT_TRUE(gate.passed);
  opener.join();
  EXPECT_EQ(cudaStreamDestroy(blocking), cudaSuccess);
}

TEST_F(Stream, AGraphCopiesAtLaunch) {
  int host = 7;
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(device_, &host, sizeof host, cudaMemcpyHostToDevice, stream_), cudaSuccess);
  ASSERT_EQ(cudaMemsetAsync(device_ + 1, 1, 4, stream_), cudaSuccess);
  ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
  EXPECT_EQ(first(), 0) << "captured, not done";
  size_t nodes = 0, edges = 0;
  ASSERT_EQ(cudaGraphGetNodes(graph, nullptr, &nodes), cudaSuccess);
  ASSERT_EQ(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &edges), cudaSuccess);
  EXPECT_EQ(nodes, 2u);
  EXPECT_EQ(edges, 1u);
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  host = 8;
  ASSERT_EQ(cudaGraphLaunch(exec, stream_), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_EQ(first(), 8);
  host = 9;
  ASSERT_EQ(cudaGraphLaunch(exec, stream_), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_EQ(first(), 9);
  EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
  EXPECT_EQ(cudaGraphExecDestroy(exec), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

TEST_F(Stream, CaptureFollowsEventsAcrossStreams) {
  cudaStream_t second;
  cudaEvent_t fork, join;
  cudaGraph_t graph;
  ASSERT_EQ(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaEventCreate(&fork), cudaSuccess);
  ASSERT_EQ(cudaEventCreate(&join), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(fork, stream_), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(second, fork, 0), cudaSuccess);
  ASSERT_EQ(cudaMemsetAsync(device_, 1, 4, second), cudaSuccess);
  cudaStreamCaptureStatus status;
  ASSERT_EQ(cudaStreamIsCapturing(second, &status), cudaSuccess);
  EXPECT_EQ(status, cudaStreamCaptureStatusActive);
  ASSERT_EQ(cudaEventRecord(join, second), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(stream_, join, 0), cudaSuccess);
  ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);

  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(fork, stream_), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(second, fork, 0), cudaSuccess);
  ASSERT_EQ(cudaMemsetAsync(device_, 1, 4, second), cudaSuccess);
  EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaErrorStreamCaptureUnjoined);
  ASSERT_EQ(cudaStreamIsCapturing(second, &status), cudaSuccess);
  EXPECT_EQ(status, cudaStreamCaptureStatusNone);
}

TEST_F(Stream, WhatADestroyedStreamCapturedStays) {
  for (const bool joins : {true, false}) {
    cudaStream_t second;
    cudaEvent_t fork, join;
    cudaGraph_t graph;
    size_t count = 0;
    ASSERT_EQ(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking), cudaSuccess);
    ASSERT_EQ(cudaEventCreate(&fork), cudaSuccess);
    ASSERT_EQ(cudaEventCreate(&join), cudaSuccess);
    ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal), cudaSuccess);
    ASSERT_EQ(cudaEventRecord(fork, stream_), cudaSuccess);
    ASSERT_EQ(cudaStreamWaitEvent(second, fork, 0), cudaSuccess);
    ASSERT_EQ(cudaMemsetAsync(device_, 1, 4, second), cudaSuccess);
    ASSERT_EQ(cudaEventRecord(join, second), cudaSuccess);
    if (joins) ASSERT_EQ(cudaStreamWaitEvent(stream_, join, 0), cudaSuccess);
    ASSERT_EQ(cudaStreamDestroy(second), cudaSuccess);
    ASSERT_EQ(cudaEventDestroy(fork), cudaSuccess);
    ASSERT_EQ(cudaEventDestroy(join), cudaSuccess);
    EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), joins ? cudaSuccess : cudaErrorStreamCaptureUnjoined);
    if (!joins) continue;
    EXPECT_EQ(cudaGraphGetNodes(graph, nullptr, &count), cudaSuccess);
    EXPECT_EQ(count, 1u);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  }
}

TEST_F(Stream, SynchronisingSpoilsACapture) {
  cudaGraph_t graph;
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaErrorStreamCaptureInvalidated);
  void* p;
  EXPECT_EQ(cudaMalloc(&p, 16), cudaSuccess) << "allowed again";
}

TEST_F(Stream, StreamOrderedMemoryIsAccounted) {
  cudaMemPool_t pool;
  ASSERT_EQ(cudaDeviceGetDefaultMemPool(&pool, 0), cudaSuccess);
  uint64_t before, during, after;
  ASSERT_EQ(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &before), cudaSuccess);
  void* p;
  ASSERT_EQ(cudaMallocAsync(&p, 1 << 20, stream_), cudaSuccess);
  cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &during);
  EXPECT_EQ(during - before, 1u << 20);
  Gate gate;
  ASSERT_EQ(cudaLaunchHostFunc(stream_, Gate::wait, &gate), cudaSuccess);
  ASSERT_EQ(cudaFreeAsync(p, stream_), cudaSuccess);
  cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &after);
  EXPECT_EQ(after, during) << "freed in the stream's order";
  gate.open = true;
  ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &after);
  EXPECT_EQ(after, before);
}

}  // namespace
