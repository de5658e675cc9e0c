// What operators that are computed need of streams that run behind the host (--async). Their effect belongs to a place
// in a stream, not to the moment at which they are called.
#pragma once

#include <cstddef>
#include <cstdint>

namespace devtrace::simulate::values {

// Handed to who computes operators; there is none without --async.
struct Asynchronous {
  // An operator's real kernel begins on the calling thread: where it launches and copies is where its effect belongs.
  // `keeps_host`: host memory that it copies to keeps what is there until then.
  void (*begin)(bool keeps_host);
  // The real kernel has ended. True: compute(data) will be called where its effect belongs, then drop(data). False, or
  // without `compute`: the streams that it has used have done their work, and who asks computes now.
  bool (*end)(void (*compute)(void*), void (*drop)(void*), void* data);
  // Whether the memory may be read and written after the call: a device's, or pinned.
  bool (*outlives_call)(uintptr_t address);
  // Of a compute() that found a value which no kernel takes: hardware's device-side assertion.
  void (*assertion)(const char* text);
};

// Null without --async.
const Asynchronous* asynchronous();
void set_asynchronous(const Asynchronous* functions);

// Until all streams have done what they have, where they do not do it at once. Who has streams says how.
void wait_for_streams();
void set_wait_for_streams(void (*wait)());

// Around a real kernel that is computed at once.
class RealKernel {
 public:
  explicit RealKernel(const Asynchronous* functions, bool keeps_host = false) : functions_(functions) {
    if (functions_) functions_->begin(keeps_host);
  }
  ~RealKernel() { end(nullptr, nullptr, nullptr); }
  bool end(void (*compute)(void*), void (*drop)(void*), void* data) {
    const Asynchronous* const functions = functions_;
    functions_ = nullptr;
    return functions && functions->end(compute, drop, data);
  }
  RealKernel(const RealKernel&) = delete;
  RealKernel& operator=(const RealKernel&) = delete;

 private:
  const Asynchronous* functions_;
};

}  // namespace devtrace::simulate::values
