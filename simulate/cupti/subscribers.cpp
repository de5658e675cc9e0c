// Who is told of calls, and of which.
//
// The slot is one a process, as with the real library. DEVTRACE_SIM_CUPTI_SUBSCRIBERS=N stands for a driver that has
// room for N subscribers, if all of them come by cuptiSubscribe_v2.
#include "simulate/cupti/subscribers.h"

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "simulate/common/callbacks.h"
#include "simulate/cupti/activity.h"
#include "simulate/cupti/cupti_headers.h"
#include "simulate/cupti/names.h"

namespace simulate = devtrace::simulate;
using simulate::Call;

// A slot. Never freed, as a call may be on its way to it; it serves one subscriber after the other.
struct CUpti_Subscriber_st {
  CUpti_CallbackFunc callback = nullptr;
  void* userdata = nullptr;
  bool v2 = false;
  char name[64] = {};  // as the next one who asks for the slot is told
  std::atomic<bool> taken{false}, leaving{false};
  std::atomic<int> inside{0};  // threads that are in its callback, or about to be
  std::atomic<bool> enabled[CUPTI_CB_DOMAIN_SIZE][simulate::kMostCallbacks] = {};
  uint32_t turn = 0;  // which of its subscribers this is
};

namespace {

using Slot = CUpti_Subscriber_st;

Slot g_slots[simulate::kMostSubscribers];
std::mutex g_mutex;  // of taking and leaving slots
std::mutex g_enabling;
thread_local int t_inside[simulate::kMostSubscribers] = {};  // this thread's part of a slot's `inside`

int slot_count() {
  static const int count = [] {
    const char* value = std::getenv("DEVTRACE_SIM_CUPTI_SUBSCRIBERS");
    const int wanted = value ? std::atoi(value) : 1;
    return wanted < 1 ? 1 : wanted > simulate::kMostSubscribers ? simulate::kMostSubscribers : wanted;
  }();
  return count;
}

// Keeps whoever leaves the slot waiting while the thread is in its callback.
class InCallback {
 public:
  explicit InCallback(int slot) : slot_(slot) {
    g_slots[slot].inside.fetch_add(1);
    ++t_inside[slot];
  }
  ~InCallback() {
    --t_inside[slot_];
    g_slots[slot_].inside.fetch_sub(1);
  }
  InCallback(const InCallback&) = delete;
  InCallback& operator=(const InCallback&) = delete;

 private:
  int slot_;
};

void notify(Slot& slot, Call* call, CUpti_ApiCallbackSite site, uint64_t* kept) {
  CUpti_CallbackData data = {};
  data.callbackSite = site;
  data.functionName = call->name;
  data.functionParams = call->parameters;
  data.functionReturnValue = call->result;
  data.symbolName = call->symbol;
  data.context = devtrace_sim_context(&data.contextUid);
  data.correlationData = kept;
  data.correlationId = call->correlation;
  slot.callback(slot.userdata, static_cast<CUpti_CallbackDomain>(call->domain), call->callback, &data);
}

// A subscriber is told of a call's end if it was told of its beginning.
void notify_subscribers(Call* call, CUpti_ApiCallbackSite site) {
  for (int i = 0; i < slot_count(); ++i) {
    Slot& slot = g_slots[i];
    const std::atomic<bool>& enabled = slot.enabled[call->domain][call->callback];
    if (!enabled.load(std::memory_order_relaxed)) continue;
    InCallback inside(i);
    if (!slot.taken.load() || !enabled.load()) continue;
    if (site == CUPTI_API_ENTER)
      call->notified[i] = slot.turn;
    else if (call->notified[i] != slot.turn)
      continue;
    notify(slot, call, site, &call->kept[i]);
  }
}

void notify_subscribers(const simulate::Notice& notice) {
  for (int i = 0; i < slot_count(); ++i) {
    Slot& slot = g_slots[i];
    const std::atomic<bool>& enabled = slot.enabled[notice.domain][notice.callback];
    if (!enabled.load(std::memory_order_relaxed)) continue;
    InCallback inside(i);
    if (!slot.taken.load() || !enabled.load()) continue;
    const auto domain = static_cast<CUpti_CallbackDomain>(notice.domain);
    if (notice.domain == simulate::kResource) {
      CUpti_ResourceData data = {};
      data.context = notice.context;
      data.resourceHandle.stream = notice.stream;
      slot.callback(slot.userdata, domain, notice.callback, &data);
    } else {
      const CUpti_SynchronizeData data = {notice.context, notice.stream};
      slot.callback(slot.userdata, domain, notice.callback, &data);
    }
  }
}

// The record's time is the call's own: callbacks lie outside of it.
void enter(Call* call) {
  notify_subscribers(call, CUPTI_API_ENTER);
  if (simulate::cupti::records_wanted()) call->start = simulate::cupti::now();
}

void leave(Call* call) {
  if (simulate::cupti::records_wanted()) simulate::cupti::record_call(*call, simulate::cupti::now());
  notify_subscribers(call, CUPTI_API_EXIT);
  if (!call->outer) simulate::cupti::deliver_full();
}

constexpr simulate::Listener kListener = {enter, leave, notify_subscribers, simulate::cupti::record_work,
                                          simulate::cupti::now};

// A child gets the locks free, and without the other threads nobody waits for them there.
void before_fork() {
  g_mutex.lock();
  g_enabling.lock();
}
void in_parent() {
  g_enabling.unlock();
  g_mutex.unlock();
}
void in_child() {
  in_parent();
  for (int i = 0; i < simulate::kMostSubscribers; ++i) g_slots[i].inside = t_inside[i];
}

bool valid(CUpti_SubscriberHandle s) {
  return s >= g_slots && s < g_slots + simulate::kMostSubscribers && s->taken;
}
int seat_of(CUpti_SubscriberHandle s) {
  return static_cast<int>(s - g_slots);
}

// Graph launches stay silent until they are asked for by their own ids.
bool only_by_name(CUpti_CallbackDomain domain, CUpti_CallbackId id) {
  if (domain == CUPTI_CB_DOMAIN_DRIVER_API)
    return id == CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch || id == CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz;
  return domain == CUPTI_CB_DOMAIN_RUNTIME_API && (id == CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_v10000 ||
                                                   id == CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_ptsz_v10000);
}

void set(Slot& slot, CUpti_CallbackDomain domain, CUpti_CallbackId id, bool on) {
  std::lock_guard lock(g_enabling);
  slot.enabled[domain][id] = on;
  if (domain != CUPTI_CB_DOMAIN_DRIVER_API && domain != CUPTI_CB_DOMAIN_RUNTIME_API) return;
  bool any = false;
  for (const Slot& s : g_slots) any = any || s.enabled[domain][id];
  devtrace_sim_calls_want(static_cast<simulate::Domain>(domain), id, simulate::kWantSubscriber, any);
}

void set_domain(Slot& slot, CUpti_CallbackDomain domain, bool on) {
  for (CUpti_CallbackId id = 1; id < simulate::cupti::callback_count(domain); ++id)
    if (!on || !only_by_name(domain, id)) set(slot, domain, id, on);
}

CUptiResult take(CUpti_SubscriberHandle* handle, CUpti_CallbackFunc callback, void* userdata, bool v2, const char* name,
                 const Slot** in_the_way) {
  static const bool forks = pthread_atfork(before_fork, in_parent, in_child) == 0;
  (void)forks;
  std::lock_guard lock(g_mutex);
  Slot* slot = nullptr;
  for (int i = 0; i < slot_count(); ++i) {
    Slot& s = g_slots[i];
    if ((s.taken || s.leaving) && (!v2 || !s.v2 || i + 1 == slot_count())) {
      *in_the_way = &s;
      return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
    }
    if (!s.taken && !s.leaving && !slot) slot = &s;
  }
  slot->callback = callback;
  slot->userdata = userdata;
  slot->v2 = v2;
  ++slot->turn;
  std::snprintf(slot->name, sizeof slot->name, "CUPTI for %s", name ? name : "");
  slot->taken = true;
  simulate::cupti::listen();
  *handle = slot;
  return CUPTI_SUCCESS;
}

// Waits until no thread is in its callback any more, but for this one. Others may leave in the meantime, inside their
// callbacks, too: no lock is held.
bool leave_slot(Slot& slot) {
  {
    std::lock_guard lock(g_mutex);
    if (!slot.taken) return false;
    for (int domain = 1; domain < CUPTI_CB_DOMAIN_SIZE; ++domain)
      set_domain(slot, static_cast<CUpti_CallbackDomain>(domain), false);
    slot.leaving = true;
    slot.taken = false;
  }
  while (slot.inside.load() > t_inside[seat_of(&slot)]) sched_yield();
  slot.leaving = false;
  return true;
}

}  // namespace

void simulate::cupti::listen() {
  devtrace_sim_calls_listen(&kListener);
}

extern "C" {

CUptiResult CUPTIAPI cuptiSubscribe(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback, void* userdata) {
  if (!subscriber || !callback) return CUPTI_ERROR_INVALID_PARAMETER;
  const Slot* in_the_way = nullptr;
  return take(subscriber, callback, userdata, false, nullptr, &in_the_way);
}

#if CUPTI_API_VERSION >= 130000
CUptiResult CUPTIAPI cuptiSubscribe_v2(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback, void* userdata,
                                       CUpti_SubscriberParams* p) {
  if (!subscriber || !callback) return CUPTI_ERROR_INVALID_PARAMETER;
  if (p && p->structSize < CUpti_SubscriberParams_STRUCT_SIZE) return CUPTI_ERROR_INVALID_PARAMETER;
  const Slot* in_the_way = nullptr;
  CUptiResult e = take(subscriber, callback, userdata, true, p ? p->subscriberName : nullptr, &in_the_way);
  if (e && p && p->oldSubscriberName && p->oldSubscriberSize)
    std::snprintf(p->oldSubscriberName, p->oldSubscriberSize, "%s", in_the_way->name);
  return e;
}
#endif

CUptiResult CUPTIAPI cuptiUnsubscribe(CUpti_SubscriberHandle subscriber) {
  return valid(subscriber) && leave_slot(*subscriber) ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER;
}

CUptiResult CUPTIAPI cuptiEnableCallback(uint32_t enable, CUpti_SubscriberHandle subscriber,
                                         CUpti_CallbackDomain domain, CUpti_CallbackId id) {
  if (!valid(subscriber) || id == 0 || id >= simulate::cupti::callback_count(domain))
    return CUPTI_ERROR_INVALID_PARAMETER;
  set(*subscriber, domain, id, enable != 0);
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiEnableDomain(uint32_t enable, CUpti_SubscriberHandle subscriber,
                                       CUpti_CallbackDomain domain) {
  if (!valid(subscriber) || !simulate::cupti::callback_count(domain)) return CUPTI_ERROR_INVALID_PARAMETER;
  set_domain(*subscriber, domain, enable != 0);
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiEnableAllDomains(uint32_t enable, CUpti_SubscriberHandle subscriber) {
  if (!valid(subscriber)) return CUPTI_ERROR_INVALID_PARAMETER;
  for (int domain = 1; domain < CUPTI_CB_DOMAIN_SIZE; ++domain)
    set_domain(*subscriber, static_cast<CUpti_CallbackDomain>(domain), enable != 0);
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiGetCallbackState(uint32_t* enabled, CUpti_SubscriberHandle subscriber,
                                           CUpti_CallbackDomain domain, CUpti_CallbackId id) {
  if (!enabled || !valid(subscriber) || id == 0 || id >= simulate::cupti::callback_count(domain))
    return CUPTI_ERROR_INVALID_PARAMETER;
  *enabled = subscriber->enabled[domain][id];
  return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiGetCallbackName(CUpti_CallbackDomain domain, uint32_t id, const char** name) {
  if (!name) return CUPTI_ERROR_INVALID_PARAMETER;
  *name = simulate::cupti::callback_name(domain, id);
  return *name ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER;
}
CUptiResult CUPTIAPI cuptiSupportedDomains(size_t* count, CUpti_DomainTable* table) {
  static CUpti_CallbackDomain domains[] = {CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_CB_DOMAIN_RUNTIME_API,
                                           CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CB_DOMAIN_SYNCHRONIZE};
  if (!count || !table) return CUPTI_ERROR_INVALID_PARAMETER;
  *count = sizeof domains / sizeof *domains;
  *table = domains;
  return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiFinalize(void) {
  for (Slot& slot : g_slots) leave_slot(slot);
  simulate::cupti::end_activity();
  return CUPTI_SUCCESS;
}

}  // extern "C"
