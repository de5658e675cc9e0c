#include "tests/programs/cupti/subscriber.h"

Subscriber::Subscriber(Look look) : look_(std::move(look)) {
  EXPECT_EQ(cuptiSubscribe(&handle, &Subscriber::on_callback, this), CUPTI_SUCCESS);
}
Subscriber::~Subscriber() {
  leave();
}

void Subscriber::leave() {
  if (handle) {
    EXPECT_EQ(cuptiUnsubscribe(handle), CUPTI_SUCCESS);
  }
  handle = nullptr;
}

void Subscriber::driver(CUpti_CallbackId id, bool on) {
  EXPECT_EQ(cuptiEnableCallback(on, handle, CUPTI_CB_DOMAIN_DRIVER_API, id), CUPTI_SUCCESS);
}
void Subscriber::runtime(CUpti_CallbackId id, bool on) {
  EXPECT_EQ(cuptiEnableCallback(on, handle, CUPTI_CB_DOMAIN_RUNTIME_API, id), CUPTI_SUCCESS);
}
void Subscriber::domain(CUpti_CallbackDomain domain, bool on) {
  EXPECT_EQ(cuptiEnableDomain(on, handle, domain), CUPTI_SUCCESS);
}

std::vector<Event> Subscriber::events() {
  std::lock_guard lock(mutex_);
  return events_;
}
void Subscriber::forget() {
  std::lock_guard lock(mutex_);
  events_.clear();
}

void Subscriber::on_callback(void* userdata, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* given) {
  auto* self = static_cast<Subscriber*>(userdata);
  if (domain != CUPTI_CB_DOMAIN_DRIVER_API && domain != CUPTI_CB_DOMAIN_RUNTIME_API) {
    Event e = {};
    e.domain = domain;
    e.id = id;
    e.thread = std::this_thread::get_id();
    if (domain == CUPTI_CB_DOMAIN_RESOURCE) {
      const auto& data = *static_cast<const CUpti_ResourceData*>(given);
      e.context = data.context;
      e.stream = data.resourceHandle.stream;
    } else if (domain == CUPTI_CB_DOMAIN_SYNCHRONIZE) {
      const auto& data = *static_cast<const CUpti_SynchronizeData*>(given);
      e.context = data.context;
      e.stream = data.stream;
    }
    std::lock_guard lock(self->mutex_);
    self->events_.push_back(e);
    return;
  }
  const auto& data = *static_cast<const CUpti_CallbackData*>(given);
  Event e = {domain,
             id,
             data.callbackSite,
             data.functionName,
             data.symbolName ? data.symbolName : "",
             data.functionParams != nullptr,
             -1,
             data.context,
             data.contextUid,
             data.correlationId,
             data.correlationData,
             *data.correlationData,
             std::this_thread::get_id(),
             nullptr};
  if (data.callbackSite == CUPTI_API_EXIT && data.functionReturnValue)
    e.result = *static_cast<const int*>(data.functionReturnValue);
  if (self->look_) self->look_(e, data.functionParams);
  std::lock_guard lock(self->mutex_);
  self->events_.push_back(e);
}

std::string text(const std::vector<Event>& events) {
  std::string t;
  for (const Event& e : events) {
    if (!t.empty()) t += ' ';
    t += (e.site == CUPTI_API_ENTER ? "+" : "-") + e.name;
  }
  return t;
}

int main(int argc, char** argv) {
  setenv("DEVTRACE_SIM_GPUS", "2", 0);
  setenv("DEVTRACE_SIM_VERBOSE", "0", 0);
  unsetenv("CUDA_VISIBLE_DEVICES");
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
