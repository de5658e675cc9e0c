// Native stacks, each kept once: a tree of return addresses, named only when a finding asks.
#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <mutex>
#include <string_view>

#include "tracker/base/arena.h"
#include "tracker/base/options.h"
#include "tracker/base/spinlock.h"
#include "tracker/stacks/hash.h"
#include "tracker/stacks/id_cache.h"
#include "tracker/stacks/native/caller.h"
#include "tracker/stacks/native/modules.h"
#include "tracker/stacks/native/native.h"
#include "tracker/stacks/stack_depot.h"
#include "tracker/stacks/thread_memory.h"

namespace devtrace::stacks {
namespace {

// Ids of native stacks have this bit, which no id of a Python stack has.
constexpr StackId kNative = StackId{1} << 31;
constexpr size_t kMostFrames = 128;

struct Frame {
  uintptr_t address;  // as the stack has it
  uintptr_t base;     // of the object that it lies in, 0: in none
  bool users;
};
struct Node {
  uint32_t caller;  // 0: the outermost frame
  uint32_t frame;
  uint32_t statement;  // the innermost node from here outwards whose frame is the user's
};

constinit Arena arena;
constinit IdCache ids;
constinit Numbered<Frame> frames;
constinit Numbered<Node> nodes;

constinit SpinLock lock;  // what is below, and adding to what is above
constinit NumberIndex frame_index;
constinit NumberIndex node_index;

constinit ThreadMemory<LastNativeStacks> memories;

// Of a thread: how many events it has had since the last whose stack was taken. And, while its stacks show no frame of
// the user's, how many are left out.
struct Rhythm {
  uint32_t events;
  uint16_t left_out;
  OwnPlace place;  // of `memories`
};
thread_local constinit Rhythm rhythm{};
constexpr uint16_t kMostLeftOut = 1023;

struct Place {
  uintptr_t base = 0;
  std::string_view path;
};

// No lock of the loader's is taken: this runs in hooks. Before glibc 2.35 there is no such question, and then every
// frame may be the user's.
Place place_of(uintptr_t address) {
#if __GLIBC_PREREQ(2, 35)
  dl_find_object found;
  if (::_dl_find_object(reinterpret_cast<void*>(address), &found) != 0 || !found.dlfo_link_map) return {};
  return {found.dlfo_link_map->l_addr + 1, found.dlfo_link_map->l_name ? found.dlfo_link_map->l_name : ""};
#else
  return {1, {}};
#endif
}

uint32_t add_frame(uintptr_t address) {
  const Place place = place_of(address - 1);
  const auto hash_of = [](const Frame& frame) { return hash_pair(frame.address, frame.base); };
  const Frame frame{address, place.base, place.base != 0 && may_be_the_users(place.path)};
  const uint64_t hash = hash_of(frame);
  const auto same = [&](uint32_t number) {
    return frames[number].address == frame.address && frames[number].base == frame.base;
  };
  if (const uint32_t known = frame_index.find(hash, same)) return known;
  const uint32_t number = frames.add(frame, arena);
  if (number == 0) return 0;
  return frame_index.add(hash, number, arena, [&](uint32_t n) { return hash_of(frames[n]); }) ? number : 0;
}

uint32_t add_call(uint32_t caller, uint32_t frame) {
  const auto hash_of = [](const Node& node) { return hash_pair(node.caller, node.frame); };
  Node node{caller, frame, 0};
  const uint64_t hash = hash_of(node);
  const auto same = [&](uint32_t number) { return nodes[number].caller == caller && nodes[number].frame == frame; };
  if (const uint32_t known = node_index.find(hash, same)) return known;
  node.statement = frames[frame].users ? nodes.count() + 1 : caller != 0 ? nodes[caller].statement : 0;
  const uint32_t number = nodes.add(node, arena);
  if (number == 0) return 0;
  return node_index.add(hash, number, arena, [&](uint32_t n) { return hash_of(nodes[n]); }) ? number : 0;
}

// The slow way: this stack was not seen before, or is no longer in the cache.
[[gnu::noinline]] uint32_t add_stack(uint64_t key, void* const* addresses, size_t count) {
  const std::lock_guard hold(lock);
  uint32_t node = 0;
  for (size_t i = count; i-- > 0;) {
    const uint32_t frame = add_frame(reinterpret_cast<uintptr_t>(addresses[i]));
    if (frame == 0 || (node = add_call(node, frame)) == 0) return 0;
  }
  if (node != 0) ids.keep(key, node, nodes.count(), arena);
  return node;
}

// A polynomial of the addresses by an odd factor: what differs in two of them would have to be that factor's multiple.
uint64_t key_of(void* const* addresses, size_t count) {
  uint64_t hash = 0xc2b2ae3d27d4eb4f;
  for (size_t i = 0; i < count; ++i) hash = hash * 0xff51afd7ed558ccd + reinterpret_cast<uintptr_t>(addresses[i]);
  return fold(hash, 0xff51afd7ed558ccd);
}

uint32_t node_of(uint64_t key, void* const* addresses, size_t count) {
  const uint32_t known = ids.find(key);
  return known != 0 || count == 0 ? known : add_stack(key, addresses, count);
}

// The stack from the hook on, by libunwind.
[[gnu::noinline]] uint32_t look_up(const caller::Frame& hook, LastNativeStacks* last) {
  void* addresses[kMostFrames];
  const size_t count = capture_native_from_hook(hook, addresses, kMostFrames);
  const uint64_t key = key_of(addresses, count);
  const uint32_t node = node_of(key, addresses, count);
  if (node != 0 && last)
    last->came(hook, key, node,
               [&](StackWord* words, size_t most) { return deciding_words(hook, addresses, count, words, most); });
  return node;
}

// The whole stack, from the function on that stands in CUDA's or PyTorch's place.
[[gnu::noinline]] uint32_t look_up_without_hook() {
  void* addresses[kMostFrames];
  const size_t count = capture_native(addresses, kMostFrames, 2);
  size_t first = 0;
  while (first < count && caller::is_own(reinterpret_cast<uintptr_t>(addresses[first]))) ++first;
  if (first > 0) --first;
  if (caller::is_the_program()) first = 0;
  return node_of(key_of(addresses + first, count - first), addresses + first, count - first);
}

bool wanted() {
  const auto every = static_cast<uint32_t>(std::max(0, options().allocation_stacks));
  if (every == 0) return false;
  if (rhythm.left_out > 0 && ++rhythm.events <= rhythm.left_out) return false;
  if (rhythm.left_out == 0 && every > 1 && ++rhythm.events % every != 0) return false;
  return true;
}

}  // namespace

StackId native_call_site_of(StackId id) {
  const uint32_t number = id & ~kNative;
  if (number == 0 || number > nodes.count()) return 0;
  const uint32_t statement = nodes[number].statement;
  return statement == 0 ? 0 : statement | kNative;
}

StackId capture_native_stack() {
  if (!wanted()) return 0;
  // Nothing tells the program's frames from ours where they are in one object.
  const caller::Frame hook =
      caller::is_the_program() ? caller::Frame{} : caller::outermost_own(__builtin_frame_address(0));
  uint32_t node = 0;
  if (hook.address != 0) {
    const Remembering<LastNativeStacks> memory(memories, rhythm.place, [] { return true; });
    if (memory.get()) node = memory.get()->find(hook);
    if (node == 0) node = look_up(hook, memory.get());
  }
  if (node == 0) node = look_up_without_hook();
  if (node == 0) return 0;
  const bool users = nodes[node].statement != 0;
  rhythm.events = 0;
  rhythm.left_out = users ? 0 : std::min<uint16_t>(kMostLeftOut, 2 * rhythm.left_out + 1);
  return node | kNative;
}

std::vector<NativeFrame> resolve_native(StackId id, bool with_lines) {
  std::vector<void*> addresses;
  std::vector<bool> gone;
  const uint32_t last = nodes.count();
  for (uint32_t node = is_native(id) ? id & ~kNative : 0; node != 0 && node <= last; node = nodes[node].caller) {
    const Frame& frame = frames[nodes[node].frame];
    addresses.push_back(reinterpret_cast<void*>(frame.address));
    gone.push_back(place_of(frame.address - 1).base != frame.base);
  }
  // What lies there now is another object's.
  for (size_t i = 0; i < addresses.size(); ++i)
    if (gone[i]) addresses[i] = nullptr;
  return symbolize(addresses.data(), addresses.size(), with_lines);
}

void before_fork_native_stacks() {
  lock.lock();
}

void after_fork_native_stacks() {
  lock.unlock();
}

}  // namespace devtrace::stacks
