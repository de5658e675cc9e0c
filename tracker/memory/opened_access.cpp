#include "tracker/memory/opened_access.h"

#include "tracker/base/address_map.h"
#include "tracker/base/clock.h"
#include "tracker/base/thread_state.h"
#include "tracker/memory/peer_access.h"

namespace devtrace::memory::opened_access {
namespace {

struct Opening {
  uint64_t begin = 0;  // of a range; of a pair both devices
  uint64_t end = 0;
  provenance::Origin made;
  uint64_t key() const { return begin; }
};
constinit AddressMap<Opening> ranges, pairs;

uint64_t pair_of(int device, int peer) {
  return static_cast<uint64_t>(device) * peer_access::kDevices + static_cast<uint64_t>(peer) + 1;
}

provenance::Origin here(Device device) {
  return {stacks::capture(), thread_state::id(), now_exact(), device};
}

}  // namespace

void of_pair(int device, int peer) {
  if (device < 0 || device >= peer_access::kDevices || peer < 0 || peer >= peer_access::kDevices) return;
  pairs.put({pair_of(device, peer), 0, here(Device::cuda(device))});
}

void of_range(uintptr_t address, size_t bytes) {
  if (address != 0) ranges.put({address, address + bytes, here(Device::cuda(thread_state::device()))});
}

std::optional<provenance::Origin> but_not_to(Device user, Device owner, uintptr_t address) {
  Opening found;
  ranges.for_each([&](const Opening& each) {
    if (each.begin <= address && address < each.end && each.made.time >= found.made.time) found = each;
  });
  if (found.begin != 0) return found.made;
  if (!peer_access::declared(owner, user) || peer_access::allowed(user, owner)) return std::nullopt;
  if (!pairs.get(pair_of(owner.index, user.index), found)) return std::nullopt;
  return found.made;
}

void forget_all() {
  ranges.clear();
  pairs.clear();
}

void before_fork() {
  ranges.lock();
  pairs.lock();
}

void after_fork() {
  pairs.unlock();
  ranges.unlock();
}

}  // namespace devtrace::memory::opened_access
