// Calls that a profiler is told of: between the libraries that have them (libcuda, libcudart) and the stub
// libcupti.
//
// Every exported function with a callback id is a jump through a variable of its own (tools/stub_library.py writes
// both). While nobody listens the variable holds the function itself; listening puts a wrapper there (callbacks.cpp).
// libcuda keeps the tables, as every other library of the stubs is linked with it.
#pragma once

#include <cstddef>
#include <cstdint>

#pragma GCC visibility push(default)
#include <cuda.h>
#pragma GCC visibility pop

namespace devtrace::simulate {

// The numbers of CUpti_CallbackDomain.
enum Domain : uint32_t { kDriver = 1, kRuntime = 2, kResource = 3, kSynchronize = 4, kDomains = 5 };
// Those of CUpti_CallbackIdResource and CUpti_CallbackIdSync, as far as they come here.
enum : uint32_t {
  kContextCreated = 1,
  kContextDestroyStarting = 2,
  kStreamCreated = 3,
  kStreamDestroyStarting = 4,
  kInitFinished = 5,
  kStreamSynchronized = 1,
  kContextSynchronized = 2,
};

// Why a function is wrapped: bits. The last: a profiler may be loaded by the first call that needs the driver, and is
// then told of that call, too.
enum Want : uint8_t { kWantSubscriber = 1, kWantActivity = 2, kWantInjection = 4 };

constexpr uint32_t kMostCallbacks = 1024;  // callback ids are below this
constexpr int kMostSubscribers = 8;

// One function of one library.
struct Callable {
  uint32_t callback;
  const char* name;
  void** entry;  // what the exported symbol jumps to
  void* implementation;
  void* wrapper;
};

// One call under way, on its wrapper's stack.
struct Call {
  Domain domain;
  uint32_t callback;
  const char* name;
  const void* parameters;  // null: the function has none
  void* result;            // null: the function returns nothing
  const char* symbol;      // the kernel's name at a launch, else null
  // The rest is libcuda's and libcupti's.
  uint32_t correlation = 0, outer = 0;
  uint64_t start = 0;
  uint32_t notified[kMostSubscribers] = {};  // which subscriber of each slot was notified of the beginning
  uint64_t kept[kMostSubscribers] = {};      // what it keeps from there to the end
};

// One end of a copy.
struct CopyEndpoint {
  enum Kind : uint8_t { kPageable, kPinned, kDevice, kArray, kManaged } kind = kPageable;
  int device = -1;       // −1: the host
  uint32_t context = 0;  // number of the context that its memory belongs to; 0: none
};

// What a device did, and when.
struct Work {
  enum Kind : uint8_t { kCopy, kSet, kKernel } kind;
  uint64_t start = 0, end = 0;  // by the listener's clock
  uint32_t correlation = 0;     // of the call that asked for it
  uint32_t device = 0, context = 0, stream = 0;
  uint64_t bytes = 0;     // copies and fills
  bool waited = false;    // the call waited for it
  CopyEndpoint from, to;  // copies; fills: to
  unsigned value = 0;     // fills
  const char* name = "";  // kernels, from here on
  unsigned grid[3] = {}, block[3] = {};
  unsigned static_shared = 0, dynamic_shared = 0, registers = 0, local = 0;
};

// Something that happened inside a call.
struct Notice {
  Domain domain;
  uint32_t callback;
  CUcontext context;
  CUstream stream;  // null: it concerns none
};

// What libcupti gives libcuda.
struct Listener {
  void (*enter)(Call*);  // on the calling thread
  void (*exit)(Call*);
  void (*noticed)(const Notice&);
  void (*worked)(const Work&);  // on the thread that did the work; must not call the driver
  uint64_t (*now)();            // the clock of Work
};

}  // namespace devtrace::simulate

extern "C" {

#pragma GCC visibility push(default)
// A library's functions, once, when it is loaded; those that are wanted already are wrapped at once.
void devtrace_sim_calls_add(devtrace::simulate::Domain domain, const devtrace::simulate::Callable* functions,
                            size_t count);
// Sets or clears one reason to wrap a function.
void devtrace_sim_calls_want(devtrace::simulate::Domain domain, uint32_t callback, devtrace::simulate::Want who,
                             int on);
// Whether the listener wants to know what devices do.
void devtrace_sim_work_want(int on);
// For good: a listener is never taken away, as calls may be on their way to it.
void devtrace_sim_calls_listen(const devtrace::simulate::Listener* listener);

// Initialises the driver if CUDA_INJECTION64_PATH names a profiler that was not loaded yet.
void devtrace_sim_inject(void);

void devtrace_sim_call_enter(devtrace::simulate::Call* call);
void devtrace_sim_call_exit(devtrace::simulate::Call* call);

// The thread's context and its number (from 1); null and 0 where there is none.
CUcontext devtrace_sim_context(uint32_t* number);
// A live context's number and device; 0: it is none.
int devtrace_sim_context_facts(CUcontext context, uint32_t* number, uint32_t* device);
// The number of a stream of the current context; 0: it is none of it.
uint32_t devtrace_sim_stream_number(CUstream stream);
// Of a CUfunction or CUkernel; null when it is neither.
const char* devtrace_sim_kernel_name(const void* handle);
#pragma GCC visibility pop

}  // extern "C"
