// Where libcuda's news of calls and work arrives.
#pragma once

#include "simulate/common/callbacks.h"
#include "simulate/cupti/cupti_headers.h"

namespace devtrace::simulate::cupti {

// From now on, for good.
void listen();

// In subscribers.cpp: tells those who enabled the call's id.
void notify_subscribers(Call* call, CUpti_ApiCallbackSite site);
void notify_subscribers(const Notice& notice);

}  // namespace devtrace::simulate::cupti
