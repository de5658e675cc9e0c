#include "tracker/memory/library_descriptors.h"

#include <algorithm>

#include "tracker/base/address_map.h"

namespace devtrace::memory::library_descriptors {
namespace {

constinit AddressMap<Descriptor> descriptors;

void set_last(Descriptor& descriptor, const void* const* memory, size_t count) {
  const size_t kept = std::min(count, kMostAddresses);
  for (size_t i = 0; i < kept; ++i)
    descriptor.addresses[kMostAddresses - kept + i] = reinterpret_cast<uintptr_t>(memory[count - kept + i]);
}

}  // namespace

void made(uint64_t descriptor, const void* const* memory, size_t count) {
  if (descriptor == 0) return;
  Descriptor one{descriptor, {}};
  set_last(one, memory, count);
  descriptors.put(one);
}

void changed(uint64_t descriptor, const void* const* memory, size_t count) {
  descriptors.update(descriptor, [&](Descriptor& now) { set_last(now, memory, count); });
}

void gone(uint64_t descriptor) {
  Descriptor was;
  if (descriptor != 0) descriptors.take(descriptor, was);
}

bool find(uint64_t descriptor, Descriptor& found) {
  return descriptor != 0 && descriptors.get(descriptor, found);
}

void forget_all() {
  descriptors.clear();
}

void before_fork() {
  descriptors.lock();
}

void after_fork() {
  descriptors.unlock();
}

}  // namespace devtrace::memory::library_descriptors
