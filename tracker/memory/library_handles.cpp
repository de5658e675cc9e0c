#include "tracker/memory/library_handles.h"

#include "tracker/base/address_map.h"
#include "tracker/base/clock.h"
#include "tracker/base/thread_state.h"
#include "tracker/interface/platform.h"

namespace devtrace::memory::library_handles {
namespace {

constinit AddressMap<Handle> handles;

// Whose handles a function makes, by its name: cublas of cublasCreate, cublasLt of cublasLtCreate, cufft of
// cufftPlan1d.
std::string_view library_of(const Handle& handle) {
  const std::string_view function = handle.function;
  const size_t create = function.find("Create");
  return function.substr(0, create != function.npos ? create : function.find_first_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ"));
}

}  // namespace

void made(events::LibraryHandle handle, const char* function) {
  const int device = platform().current_device ? platform().current_device() : -1;
  if (handle == 0 || device < 0) return gone(handle);
  handles.put({handle, {stacks::capture(), thread_state::id(), now_exact(), Device::cuda(device)}, function, 0});
}

void gone(events::LibraryHandle handle) {
  Handle was;
  if (handle != 0) handles.take(handle, was);
}

std::optional<Handle> known_handle(events::LibraryHandle handle) {
  std::optional<Handle> found(std::in_place);  // where the caller wants it: it is not copied
  if (handle == 0 || !handles.get(handle, *found)) found.reset();
  return found;
}

void note_use(events::LibraryHandle handle) {
  handles.update(handle, [](Handle& now) { now.used = 1; });
}

std::vector<Handle> others(const Handle& than, Device on) {
  constexpr size_t kMost = 8;
  const std::string_view library = library_of(than);
  std::vector<Handle> found;
  found.reserve(kMost);  // nothing may be allocated while a lock is held
  handles.for_each([&](const Handle& one) {
    if (one.number != than.number && one.made.device == on && library_of(one) == library && found.size() < kMost)
      found.push_back(one);
  });
  return found;
}

Device only_device_of(std::string_view library) {
  Device only;
  bool several = false;
  handles.for_each([&](const Handle& one) {
    if (library_of(one) != library) return;
    several = several || (only.known() && only != one.made.device);
    only = one.made.device;
  });
  return several ? Device() : only;
}

void forget_all() {
  handles.clear();
}

void before_fork() {
  handles.lock();
}

void after_fork() {
  handles.unlock();
}

}  // namespace devtrace::memory::library_handles
