#include "simulate/cupti/listener.h"

#include "simulate/cupti/activity.h"

namespace devtrace::simulate::cupti {
namespace {

// The record's time is the call's own: callbacks lie outside of it.
void enter(Call* call) {
  notify_subscribers(call, CUPTI_API_ENTER);
  if (records_wanted()) call->start = now();
}

void leave(Call* call) {
  if (records_wanted()) record_call(*call, now());
  notify_subscribers(call, CUPTI_API_EXIT);
  if (!call->outer) deliver_full();
}

constexpr Listener kListener = {enter, leave, notify_subscribers, record_work, now};

}  // namespace

void listen() {
  devtrace_sim_calls_listen(&kListener);
}

}  // namespace devtrace::simulate::cupti
