// What an operator that PyTorch's CPU kernels compute does to memory, as work of a stream.
#pragma once

#include <cstdint>
#include <thread>

#include "simulate/common/cuda_headers.h"

namespace devtrace::simulate::asynchronous {

// Its place is where the last of the operator's own kernels, copies and fills was enqueued: what these should do, it
// does. So what the operator waits for comes before it, and the events that it records behind its work come after it.
struct Effect {
  Effect() = default;
  ~Effect() {
    if (drop) drop(data);
  }
  Effect(const Effect&) = delete;
  Effect& operator=(const Effect&) = delete;

  // All under the schedule's lock.
  unsigned long long stream = 0;  // its place
  uint64_t number = 0;            // 0: none
  bool open = true;               // the operator still runs; nobody passes its place but the thread that it runs on
  bool lost = false;              // that thread has passed it, or there are places in several streams
  std::thread::id owner = std::this_thread::get_id();
  void (*compute)(void*) = nullptr;
  void (*drop)(void*) = nullptr;
  void* data = nullptr;
};

// The operator that runs on the calling thread has enqueued something, `own`: a kernel, copy or fill that its effect
// stands for.
void operator_used(CUstream stream, bool own);
// See values::Asynchronous::begin.
bool operator_keeps_host();

// Lets who computes operators in.
void offer_effects();

}  // namespace devtrace::simulate::asynchronous
