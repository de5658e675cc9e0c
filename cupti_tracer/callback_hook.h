// A hook as the body of CUPTI's callbacks at a function's entry and exit; see interpose/cuda/hook.h. It runs once for
// each. At the entry the "call" is one that failed, so that nothing is told of a result. At the exit it hands over the
// real result, and what was to be told before is left out.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cupti_tracer/parameters.h"
#include "tracker/stacks/native/caller.h"

// The table of callbacks (cupti_tracer/callbacks.cpp) finds a hook by this name.
#define CALLBACK_HOOK(Result, symbol, name, parameters)                                                  \
  static Result devtrace_body_##name parameters;                                                         \
  extern "C" __attribute__((visibility("hidden"))) void devtrace_callback_##symbol(const void* packed) { \
    devtrace::cupti_tracer::call_with(&devtrace_body_##name, packed);                                    \
  }                                                                                                      \
  static Result devtrace_body_##name parameters

#define RUNTIME_HOOK(symbol, parameters) CALLBACK_HOOK(cudaError_t, symbol, symbol, parameters)
#define RUNTIME_HOOK_AS(symbol, name, parameters) CALLBACK_HOOK(cudaError_t, symbol, name, parameters)
#define DRIVER_HOOK(symbol, parameters) CALLBACK_HOOK(CUresult, symbol, symbol, parameters)

#define CALL_RUNTIME(symbol, arguments) \
  (devtrace::cupti_tracer::unused arguments, devtrace::cupti_tracer::result<cudaError_t>())
#define CALL_RUNTIME_AS(symbol, name, arguments) CALL_RUNTIME(symbol, arguments)
#define CALL_DRIVER(symbol, arguments) \
  (devtrace::cupti_tracer::unused arguments, devtrace::cupti_tracer::result<CUresult>())

#define OLDER_THAN(since, symbol, name) (devtrace::cupti_tracer::callback_context->version < (since))

namespace devtrace::cupti_tracer {

// What a callback brings that a hook's parameters do not say.
struct CallbackContext {
  bool exit = false;       // the function has been called
  bool outermost = false;  // it was not called by another whose callback is delivered as well
  unsigned version = 0;    // the CUDA version with which the function's parameters came (12030); 0: the driver's, whose
                           // names tell
  const void* result = nullptr;  // at the exit
  uint64_t* at_entry = nullptr;  // 64 bits that the entry leaves for the exit
  uint32_t correlation_id = 0;   // that CUPTI's activity records give the call
};

// The calling thread's, while a hook runs.
extern thread_local constinit const CallbackContext* callback_context __attribute__((visibility("hidden")));

template <class... Arguments>
void unused(const Arguments&...) {}

template <class Result>
Result result() {
  return callback_context->exit ? *static_cast<const Result*>(callback_context->result)
                                : static_cast<Result>(1);  // an invalid value
}

class [[maybe_unused]] CallbackCall {  // some hooks ask it nothing
 public:
  bool enabled() const { return true; }
  bool entering() const { return !callback_context->exit; }
  bool outermost() const { return callback_context->outermost; }
  bool before() const { return entering() && outermost(); }
  bool after() const { return callback_context->exit; }
  template <class Make>
  auto value_at_entry(const Make& make) const {
    using Value = decltype(make());
    static_assert(std::is_integral_v<Value> && sizeof(Value) <= sizeof(uint64_t));
    if (entering()) *callback_context->at_entry = static_cast<uint64_t>(make());
    return static_cast<Value>(*callback_context->at_entry);
  }
  uint32_t correlation_id() const { return callback_context->correlation_id; }
  const void* caller() const { return reinterpret_cast<const void*>(stacks::caller::address()); }
  const void* frame() const { return nullptr; }
};

}  // namespace devtrace::cupti_tracer

namespace devtrace::interpose {
using Call = cupti_tracer::CallbackCall;
}
