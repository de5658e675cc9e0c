// What a callback brings that a hook's parameters do not say.
#pragma once

#include <cstdint>

namespace devtrace::cupti_tracer {

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

}  // namespace devtrace::cupti_tracer
