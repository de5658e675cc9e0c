#include "cupti_tracer/tracer.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "cupti_tracer/activity.h"
#include "cupti_tracer/callbacks.h"
#include "cupti_tracer/library.h"
#include "tracker/base/message.h"
#include "tracker/stacks/native/caller.h"
#include "tracker/stacks/stacks.h"

namespace devtrace::cupti_tracer {
namespace {

struct Started {
  const Library* cupti = nullptr;
  CUpti_SubscriberHandle subscriber = nullptr;
};
Started started;
std::atomic<bool> running{false};

// What stands between the program and a callback.
constexpr const char* kBetween[] = {"libcupti.so", "libcuda.so", "libcudart.so", nullptr};

// Whether the CUDA runtime is on the calling thread's stack. (A static one has no file of its own: its first call is
// then told as the driver's calls that it makes.)
bool called_by_runtime() {
  constexpr size_t kMostFrames = 64;
  void* addresses[kMostFrames];
  const size_t count = stacks::capture_native(addresses, kMostFrames);
  for (size_t i = 0; i < count; ++i) {
    Dl_info info{};
    if (::dladdr(addresses[i], &info) && info.dli_fname && std::strstr(info.dli_fname, "/libcudart.so")) return true;
  }
  return false;
}

// cuptiSubscribe_v2's parameters, with what CUDA 13.2 has added: whether other subscribers may stay.
struct SubscribeParams {
  CUpti_SubscriberParams parameters;
  uint8_t allow_others;
};

// Who sits there already, for cuptiSubscribe_v2 to write.
struct PreviousSubscriber {
  char name[CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN] = {};
};

CUptiResult subscribe(const Library& cupti, CUpti_SubscriberHandle& subscriber, PreviousSubscriber& previous) {
  if (!cupti.cuptiSubscribe_v2) return cupti.cuptiSubscribe(&subscriber, callback, nullptr);
  SubscribeParams params{};
  params.parameters.subscriberName = "devtrace";
  params.parameters.oldSubscriberName = previous.name;
  params.parameters.oldSubscriberSize = sizeof previous.name;
  params.allow_others = 1;
  params.parameters.structSize = offsetof(SubscribeParams, allow_others) + sizeof params.allow_others;
  const CUptiResult result = cupti.cuptiSubscribe_v2(&subscriber, callback, nullptr, &params.parameters);
  if (result != CUPTI_ERROR_INVALID_PARAMETER) return result;
  params.parameters.structSize = CUpti_SubscriberParams_STRUCT_SIZE;  // before CUDA 13.2
  return cupti.cuptiSubscribe_v2(&subscriber, callback, nullptr, &params.parameters);
}

std::string reason(const Library& cupti, CUptiResult result, const PreviousSubscriber& previous) {
  if (result != CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED) return "CUPTI refuses: " + cupti.text(result);
  const size_t length = ::strnlen(previous.name, sizeof previous.name);
  return "CUPTI's only seat is taken" +
         (length ? " by '" + std::string(previous.name, length) + "'"
                 : std::string(" by another tool (torch.profiler, Nsight, compute-sanitizer)"));
}

}  // namespace

bool start(bool hooked, std::string& why) {
  if (running.load()) return true;
  const Library* const cupti = library(why);
  if (!cupti) return false;
  CUpti_SubscriberHandle subscriber = nullptr;
  PreviousSubscriber previous;
  if (const CUptiResult result = subscribe(*cupti, subscriber, previous); result != CUPTI_SUCCESS) {
    why = reason(*cupti, result, previous);
    return false;
  }
  std::string refused;
  if (enable_callbacks(*cupti, subscriber, refused) == 0) {
    cupti->cuptiUnsubscribe(subscriber);
    why = "this CUPTI delivers no callback of any hooked function";
    if (!refused.empty()) why += ", not of " + refused;
    return false;
  }
  if (!refused.empty())
    warn("CUPTI does not deliver calls of " + refused + ": what the program does through them is not seen");
  started = {cupti, subscriber};
  record_copies(*cupti);
  if (called_by_runtime()) inside_call(hooked);
  stacks::caller::called_through(kBetween);
  running.store(true);
  enable_events(true);
  // Registered after CUPTI was loaded, so it runs before CUPTI's own exit handlers.
  std::atexit(stop);
  return true;
}

void stop() {
  if (!running.exchange(false)) return;
  flush_copies(*started.cupti);
  enable_events(false);
  started.cupti->cuptiUnsubscribe(started.subscriber);
  stacks::caller::called_through(nullptr);
}

void after_fork_in_child() {
  if (!running.exchange(false)) return;
  enable_events(false);
  stacks::caller::called_through(nullptr);
}

}  // namespace devtrace::cupti_tracer
