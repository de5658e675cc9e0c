// A stream, four numbers in memory for it to work on, and a host function that holds it up.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

struct Gate {
  std::atomic<bool> open{false}, passed{false};
  static void wait(void* self) {
    auto* gate = static_cast<Gate*>(self);
    while (!gate->open) std::this_thread::yield();
    gate->passed = true;
  }
};

class OnAStream : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
    ASSERT_EQ(cudaDeviceReset(), cudaSuccess);
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
    ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&device_), 4 * sizeof(int)), cudaSuccess);
    ASSERT_EQ(cudaMemset(device_, 0, 4 * sizeof(int)), cudaSuccess);
    // It returns before it is done, and a non-blocking stream does not wait for it.
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  }
  void TearDown() override {
    cudaStreamDestroy(stream_);
    cudaFree(device_);
  }
  int at(int i) {
    int value = -1;
    EXPECT_EQ(cudaMemcpy(&value, device_ + i, sizeof value, cudaMemcpyDeviceToHost), cudaSuccess);
    return value;
  }
  cudaStream_t stream_ = nullptr;
  int* device_ = nullptr;
};
