#include "tracker/memory/provenance.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>

#include "tracker/base/clock.h"
#include "tracker/base/process_start.h"
#include "tracker/base/thread_state.h"
#include "tracker/memory/extent_map.h"
#include "tracker/memory/ownership.h"
#include "tracker/memory/pooled_memory.h"

namespace devtrace::memory::provenance {
namespace {

// A block as it is kept: there may be millions.
struct Kept {
  uintptr_t address;
  uint64_t bytes : 48;
  int64_t device : 8;
  uint64_t moved : 1;        // `moves` has its source
  uint64_t copied_into : 1;  // asked and kept for blocks with a native stack only
  uint64_t use : 6;          // live_memory::Use; to the word's end, or what is beyond would be read to be kept
  stacks::StackId stack;
  uint32_t thread;
  uint64_t time;
  uint64_t key() const { return address; }

  Origin allocated() const { return {stack, thread, time, Device{static_cast<int8_t>(device)}}; }
};
static_assert(sizeof(Kept) == 32);
constexpr uint64_t kMostBytes = (uint64_t{1} << 48) - 1;

// What is known besides of a block that was filled by a move.
struct Move {
  uintptr_t address;
  Origin created;
  Device from;
  uint64_t key() const { return address; }
};

// The last moves, whose blocks may be gone: a ring. One that is being written has no number.
struct RecentMove {
  std::atomic<uint64_t> number, time;
  std::atomic<stacks::StackId> stack;
  std::atomic<uint32_t> thread;
  std::atomic<int8_t> device;
};
constexpr uint64_t kRecentMoves = 512;
constinit std::array<RecentMove, kRecentMoves> recent{};
constinit std::atomic<uint64_t> moves_seen{0};

void remember_move(const Kept& target) {
  const uint64_t number = moves_seen.fetch_add(1, std::memory_order_relaxed) + 1;
  RecentMove& entry = recent[number % kRecentMoves];
  entry.number.store(0, std::memory_order_release);
  entry.time.store(target.time, std::memory_order_relaxed);
  entry.stack.store(target.stack, std::memory_order_relaxed);
  entry.thread.store(target.thread, std::memory_order_relaxed);
  entry.device.store(static_cast<int8_t>(target.device), std::memory_order_relaxed);
  entry.number.store(number, std::memory_order_release);
}

// Blocks that PyTorch gave out, and allocations that CUDA gave out: the first block of an allocation has its address.
constinit ExtentMap<Kept> blocks;
constinit ExtentMap<Kept> allocations;
constinit AddressMap<Move> moves;

// Blocks from before devtrace was attached, apart from those that were seen: what is seen of an address is newer. While
// they are told, what ends is noted, or a block whose end came before it was told would live for ever.
constinit ExtentMap<Kept> existing;
constinit std::atomic<bool> any_existing{false}, telling_existing{false};
struct Ended {
  uintptr_t address;
  uint64_t key() const { return address; }
};
constinit AddressMap<Ended> ended;

constinit std::atomic<bool> called{false};

[[gnu::always_inline]] inline live_memory::Use use_begins(size_t bytes, Device device,
                                                          const stacks::Captured& captured) {
  if (!captured.in_module_call() || !device.is_cuda()) [[likely]]
    return live_memory::Use::other;
  live_memory::begins_as(device, live_memory::Use::activations, bytes);
  if (!called.load(std::memory_order_relaxed)) called.store(true, std::memory_order_relaxed);
  return live_memory::Use::activations;
}

void use_ends(const Kept& block) {
  if (block.use == 0) return;
  live_memory::no_longer_used(Device{static_cast<int8_t>(block.device)}, static_cast<live_memory::Use>(block.use),
                              block.bytes);
}

[[gnu::noinline]] void existing_is_gone(uintptr_t address) {
  if (telling_existing.load()) ended.put({address});
  Kept block;
  if (any_existing.load(std::memory_order_relaxed) && existing.take(address, block)) use_ends(block);
}

// Whose it is; `use` is asked when that is known.
template <class Use>
[[gnu::always_inline]] inline Kept described(uintptr_t address, size_t bytes, Device device, const Use& use) {
  const stacks::Captured captured = stacks::capture_with_call();
  const stacks::StackId stack = captured.stack();
  const uint64_t time = now_in_order(stacks::is_native(stack));
  bytes = std::min<uint64_t>(bytes, kMostBytes);
  // By words, which stay in registers: fields smaller than one go through memory.
  const uint64_t about =
      bytes | uint64_t{static_cast<uint8_t>(device.index)} << 48 | uint64_t{use(bytes, captured)} << 58;
  const uint64_t who = stack | uint64_t{thread_state::id()} << 32;
  return std::bit_cast<Kept>(std::array{uint64_t{address}, about, who, time});
}

[[gnu::noinline]] void forget_move(uintptr_t address) {
  Move move;
  moves.take(address, move);
}

// A block that is gone.
[[gnu::always_inline]] inline void forget(const Kept& block) {
  use_ends(block);
  if (block.moved) [[unlikely]]
    forget_move(block.address);
}

// The stack of the block that this thread was given last: what the allocator says until the next one is of it.
thread_local constinit stacks::StackId last_given = 0;

[[gnu::always_inline]] inline stacks::StackId block_given(uintptr_t address, size_t bytes, Device device) {
  if (any_existing.load(std::memory_order_relaxed)) [[unlikely]]
    existing_is_gone(address);
  const Kept block = described(address, bytes, device, [&](size_t kept, const stacks::Captured& captured) {
    return static_cast<uint8_t>(use_begins(kept, device, captured));
  });
  last_given = block.stack;
  Kept old;
  if (blocks.put(block, old)) [[unlikely]]
    forget(old);
  return block.stack;
}
[[gnu::always_inline]] inline void block_taken(uintptr_t address) {
  if (any_existing.load(std::memory_order_relaxed)) [[unlikely]]
    existing_is_gone(address);
  Kept block;
  if (blocks.take(address, block)) forget(block);
}

// Whether the statement that allocated the block copies into it now. A native stack costs more than a look-up, and the
// first copy tells: a statement that copies into what it allocated does so at once.
bool moved_by_statement(const Kept& target) {
  if (target.copied_into) return false;
  blocks.update(target.address, [&](Kept& now) { now.copied_into = now.stack == target.stack; });
  const stacks::StackId statement = stacks::call_site_of(target.stack);
  return statement != 0 && statement == stacks::call_site_of(stacks::capture());
}

// Where what is copied out of a block was made.
Origin made(const Kept& source) {
  Move move;
  return source.moved && moves.get(source.address, move) ? move.created : source.allocated();
}

// CUDA memory always comes in known blocks, but for that from before devtrace was attached.
Origin unseen_origin(uintptr_t address) {
  const Device owner = process_start::attached() > 0 ? memory::ownership::likely(address) : Device{};
  return {0, 0, 0, owner.known() ? owner : Device::cpu()};
}

bool was_there(const Origin& origin) {
  return origin.time == 0 && origin.device.known();
}

// A pool that is older than the attaching gives out its memory to arrays that are newer.
std::optional<Block> given_out_of_unseen(uintptr_t address) {
  const auto extent = process_start::attached() > 0 ? ownership::extent_at(address) : std::nullopt;
  if (!extent) return std::nullopt;
  return pooled_memory::part_at(address, {extent->address, extent->bytes, {0, 0, 0, extent->device}, {}, {}});
}

}  // namespace

bool module_was_called() {
  return called.load(std::memory_order_relaxed);
}

void given(uintptr_t address, size_t bytes, Device device) {
  block_given(address, bytes, device);
}
void taken(uintptr_t address) {
  block_taken(address);
}
void given(uintptr_t address, size_t bytes, const live_memory::TorchHas& has) {
  live_memory::torch_has(has, block_given(address, bytes, has.device));
}
void taken(uintptr_t address, const live_memory::TorchHas& has) {
  block_taken(address);
  live_memory::torch_has_less(has);
}
void torch_has(const live_memory::TorchHas& has) {
  live_memory::torch_has(has, last_given);
}

void allocated(uintptr_t address, size_t bytes, Device device) {
  allocations.put(described(address, bytes, device, [](size_t, const stacks::Captured&) { return uint8_t{0}; }));
}
void freed(uintptr_t address) {
  Kept block;
  allocations.take(address, block);
}

void freed_starting_in(uintptr_t begin, uintptr_t end) {
  allocations.take_starting_in(begin, end);
}

void copied(uintptr_t to, uintptr_t from, stacks::OnePythonStack& stack) {
  Kept target;
  if (!blocks.starting_at(to, target) || target.moved) return;
  const bool native = stacks::is_native(target.stack);
  if (!native && stack.taken() && target.stack != stack.id()) return;  // it spares the other look-up
  Kept source;
  bool source_known = blocks.starting_at(from, source);
  if (source_known && source.device == target.device) return;
  if (target.thread != thread_state::id()) return;
  if (native ? !moved_by_statement(target) : target.stack != stack.id()) return;
  if (!source_known) source_known = blocks.around(from, source);  // a slice starts inside its block
  if (!source_known && any_existing.load(std::memory_order_relaxed)) source_known = existing.around(from, source);
  const Origin unseen = source_known ? Origin{} : unseen_origin(from);
  const Device source_device = source_known ? source.allocated().device : unseen.device;
  if (source_device == target.allocated().device) return;
  moves.put({to, source_known ? made(source) : unseen.device.is_cuda() ? unseen : Origin{}, source_device});
  bool kept = false;
  blocks.update(to, [&](Kept& now) {  // which may be another by now
    kept = now.stack == target.stack && now.bytes == target.bytes;
    if (kept) now.moved = 1;
  });
  Move none;
  if (kept)
    remember_move(target);
  else
    moves.take(to, none);
}

std::vector<Origin> recent_moves(uint32_t thread, Device to) {
  std::vector<Origin> found;
  const uint64_t last = moves_seen.load(std::memory_order_acquire);
  for (uint64_t number = last; number > 0 && number + kRecentMoves > last; --number) {
    const RecentMove& entry = recent[number % kRecentMoves];
    if (entry.number.load(std::memory_order_acquire) != number) continue;
    const Origin origin{entry.stack.load(), entry.thread.load(), entry.time.load(), Device{entry.device.load()}};
    if (entry.number.load() != number) continue;  // it has been written over meanwhile
    if (origin.thread == thread && origin.device == to) found.push_back(origin);
  }
  return found;
}

void is_used(uintptr_t address, live_memory::Use use) {
  for (ExtentMap<Kept>* const map : {&blocks, &existing}) {
    Kept block;
    if (!map->around(address, block)) continue;
    const auto before = static_cast<live_memory::Use>(block.use);
    if (before != live_memory::Use::other && before != live_memory::Use::activations) return;
    bool same = false;
    map->update(block.address, [&](Kept& now) {  // which may be another by now
      same = now.use == block.use && now.stack == block.stack && now.time == block.time && now.bytes == block.bytes;
      if (same) now.use = static_cast<uint64_t>(use) & 7;
    });
    if (same) live_memory::is_used(Device{static_cast<int8_t>(block.device)}, use, block.bytes, block.time, before);
    return;
  }
}

std::optional<Block> block_at(uintptr_t address) {
  Kept kept;
  const bool given = blocks.around(address, kept) || existing.around(address, kept);
  if (!given && !allocations.around(address, kept)) return given_out_of_unseen(address);
  Block block{kept.address, kept.bytes, kept.allocated(), {}, {}, was_there(kept.allocated())};
  if (!given) return pooled_memory::part_at(address, block).value_or(block);
  if (Move move; kept.moved && moves.get(kept.address, move)) {
    block.created = move.created;
    block.moved_from = move.from;
    block.existed = was_there(move.created);
  }
  return block;
}

void forget_all() {
  blocks.clear();
  allocations.clear();
  moves.clear();
  for (RecentMove& each : recent) each.number.store(0);
  existing.clear();
  any_existing.store(false);
}

void begin_existing() {
  ended.clear();
  telling_existing.store(true);
  any_existing.store(true);
}

// A block that ends while this runs is noted before it is looked for, and looked for here after it was put.
void existed(uintptr_t address, size_t bytes, Device device) {
  if (address == 0 || bytes == 0) return;
  existing.put({address, std::min<uint64_t>(bytes, kMostBytes), device.index, 0, 0, 0, 0, 0, 0});
  Ended known;
  Kept block;
  if (ended.get(address, known)) existing.take(address, block);
}

void end_existing() {
  telling_existing.store(false);
  ended.clear();
}

void before_fork() {
  blocks.lock();
  allocations.lock();
  moves.lock();
  existing.lock();
  ended.lock();
}

void after_fork() {
  ended.unlock();
  existing.unlock();
  moves.unlock();
  allocations.unlock();
  blocks.unlock();
}

}  // namespace devtrace::memory::provenance
