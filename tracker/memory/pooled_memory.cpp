#include "tracker/memory/pooled_memory.h"

#include <algorithm>
#include <array>
#include <vector>

#include "tracker/base/address_map.h"
#include "tracker/base/clock.h"
#include "tracker/base/thread_state.h"
#include "tracker/python/safe_memory.h"

namespace devtrace::memory::pooled_memory {
namespace {

struct Object {
  uintptr_t address;
  uint64_t bytes;
  stacks::StackId stack;
  uint32_t thread;
  uint64_t time;
  uint64_t key() const { return address; }
};

constinit AddressMap<Object> objects;

constexpr size_t kMostBytes = 128;  // of an object that are looked at
constexpr size_t kUnit = 512;       // what CuPy's pool gives out are multiples of it

struct Part {
  uintptr_t address = 0;
  size_t bytes = 0;
};

// An object's fields are a C structure: address, size, device, with others in front of them and behind. They are known
// by what they are: three words after one another that no other field can be taken for.
std::optional<Part> part_of(const Object& object, const python::SafeMemory& memory,
                            const provenance::Block& allocation) {
  std::array<uintptr_t, kMostBytes / sizeof(uintptr_t)> words = {};
  const size_t bytes = std::min<size_t>(object.bytes, kMostBytes);
  if (!memory.copy(object.address, words.data(), bytes)) return std::nullopt;
  for (size_t i = 0; i + 2 < bytes / sizeof(uintptr_t); ++i) {
    const uintptr_t offset = words[i] - allocation.address;  // may be any number
    const size_t size = words[i + 1];
    if (offset >= allocation.bytes || size == 0 || size % kUnit != 0 || size > allocation.bytes - offset) continue;
    if (static_cast<int32_t>(words[i + 2]) != allocation.allocated.device.index) continue;
    return Part{words[i], size};
  }
  return std::nullopt;
}

// Nothing may be allocated while a lock is held. What comes in between is not what the caller asks for.
std::vector<Object> all_objects() {
  size_t count = 0;
  objects.for_each([&](const Object&) { ++count; });
  std::vector<Object> all;
  all.reserve(count);
  objects.for_each([&](const Object& object) {
    if (all.size() < count) all.push_back(object);
  });
  return all;
}

}  // namespace

void made(uintptr_t object, size_t bytes) {
  const stacks::StackId stack = stacks::capture();
  objects.put({object, bytes, stack, thread_state::id(), now_in_order(false)});
}

void gone(uintptr_t object) {
  Object was;
  objects.take(object, was);
}

std::optional<provenance::Block> part_at(uintptr_t address, const provenance::Block& allocation) {
  const std::vector<Object> all = all_objects();
  if (all.empty()) return std::nullopt;
  const python::SafeMemory memory;
  std::optional<provenance::Block> found;
  for (const Object& object : all) {
    const auto part = part_of(object, memory, allocation);
    if (!part || address - part->address >= part->bytes) continue;
    // A pool that takes its memory from another one: of the two parts the array's own is the smaller or the newer one.
    if (found && (part->bytes > found->bytes || (part->bytes == found->bytes && object.time < found->allocated.time)))
      continue;
    found = provenance::Block{
        part->address, part->bytes, {object.stack, object.thread, object.time, allocation.allocated.device}, {}, {}};
    found->pooled = true;
  }
  return found;
}

void forget_all() {
  objects.clear();
}

void before_fork() {
  objects.lock();
}

void after_fork() {
  objects.unlock();
}

}  // namespace devtrace::memory::pooled_memory
