#include "simulate/cupti/listener.h"

#include "simulate/cupti/activity.h"

namespace devtrace::sim::cupti {
namespace {

// The record's time is the call's own: callbacks lie outside of it.
void enter(Call* call) {
  tell_subscribers(call, CUPTI_API_ENTER);
  if (records_wanted()) call->start = now();
}

void leave(Call* call) {
  if (records_wanted()) record_call(*call, now());
  tell_subscribers(call, CUPTI_API_EXIT);
  if (!call->outer) deliver_full();
}

constexpr Listener kListener = {enter, leave, tell_subscribers, record_work, now};

}  // namespace

void listen() {
  devtrace_sim_calls_listen(&kListener);
}

}  // namespace devtrace::sim::cupti
