// A profiler for tests: notes every callback that it gets, each field as the headers of the real CUPTI declare it.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>
// After these two, as it declares the structures of the parameters.
#include <cupti.h>
#include <gtest/gtest.h>

#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

struct Event {
  CUpti_CallbackDomain domain;
  CUpti_CallbackId id;
  CUpti_ApiCallbackSite site;
  std::string name, symbol;
  bool has_parameters;
  int result;  // at the call's end
  CUcontext context;
  uint32_t context_number, correlation;
  uint64_t* data;
  uint64_t kept;  // what was in *data
  std::thread::id thread;
  CUstream stream;  // of a resource or a synchronisation
};

class Subscriber {
 public:
  using Look = std::function<void(const Event&, const void* parameters)>;

  // Takes the seat; `look` sees each event while its data are alive.
  explicit Subscriber(Look look = {});
  ~Subscriber();
  Subscriber(const Subscriber&) = delete;
  Subscriber& operator=(const Subscriber&) = delete;

  void driver(CUpti_CallbackId id, bool on = true);
  void runtime(CUpti_CallbackId id, bool on = true);
  void domain(CUpti_CallbackDomain domain, bool on = true);
  void leave();

  std::vector<Event> events();  // so far
  void forget();
  CUpti_SubscriberHandle handle = nullptr;

 private:
  static void on_callback(void* self, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* data);
  Look look_;
  std::mutex mutex_;
  std::vector<Event> events_;
};

// "+cudaMalloc +cuMemAlloc_v2 -cuMemAlloc_v2 -cudaMalloc": beginnings and ends in their order.
std::string text(const std::vector<Event>& events);

#define DRIVER(name) CUPTI_DRIVER_TRACE_CBID_##name
#define RUNTIME(name) CUPTI_RUNTIME_TRACE_CBID_##name
