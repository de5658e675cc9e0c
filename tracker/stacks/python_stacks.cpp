// capture_python() and what it leads to.
#include <algorithm>
#include <atomic>
#include <mutex>
#include <string_view>

#include "common/torch_function_frames.h"
#include "tracker/base/arena.h"
#include "tracker/base/spinlock.h"
#include "tracker/python/frame_decoder.h"
#include "tracker/python/python_reader.h"
#include "tracker/stacks/code_generations.h"
#include "tracker/stacks/hash.h"
#include "tracker/stacks/id_cache.h"
#include "tracker/stacks/last_stack.h"
#include "tracker/stacks/native/native.h"
#include "tracker/stacks/stack_depot.h"
#include "tracker/stacks/stacks.h"
#include "tracker/stacks/thread_memory.h"

namespace devtrace::stacks {

using namespace python;
namespace {

constinit Arena arena;
constinit CodeGenerations code_generations;
constinit IdCache stack_ids;  // by the key of a whole raw stack
constinit StackDepot table;

constinit SpinLock lock;                       // what is below, and adding to what is above
constinit IdCache frame_ids(size_t{1} << 20);  // by the key of a raw frame
constinit RawFrame raw_stack[kMaxDepth] = {};  // too large for the stacks of strangers' threads
constexpr size_t kMaxText = 4096;
constinit char file_text[kMaxText] = {};
constinit char function_text[kMaxText] = {};

// Stacks are never given back: where code is made anew for each call, new ones are no longer kept from here on.
constexpr size_t kMostMemory = 256u << 20;

// Stands in for the frames beyond kMaxDepth, as the outermost one.
constexpr std::string_view kDeeper = "[deeper frames left out]";

constinit ThreadMemory<LastStack> memories;
thread_local constinit OwnPlace own_place;

// Of a Python that is read for good, so that none with other frames comes after it.
bool may_remember(const PythonReader& reader) {
  return LastStack::knows(reader.layout) && python::detail::published.load(std::memory_order_relaxed) == &reader;
}

constexpr uint32_t kInModuleCall = Captured::kInModuleCall;
static_assert(IdCache::kMaxId < kInModuleCall);
uint32_t marked(StackId id) {
  return table.in_module_call(id) ? id | kInModuleCall : id;
}

class StackKey {
 public:
  // The folded product with a non-zero second factor keeps every frame in; the generation tells a code object from its
  // successor. No frame's product waits for the one before.
  static uint64_t of(const RawFrame& frame) {
    return fold(frame.code + code_generations.generation(frame.code) * kOdd,
                kOdd + static_cast<uint64_t>(frame.offset));
  }
  // The sum of them, a polynomial, tells their order, and how often a frame comes (LastStack::hash is the same one).
  void add(const RawFrame& frame) {
    hash_ = hash_ * kOther + of(frame);
    ++depth_;
  }
  size_t depth() const { return depth_; }
  uint64_t value(WalkEnd end) const { return value(hash_, end); }
  static uint64_t value(const LastStack& stack) { return value(stack.hash(kFirst), WalkEnd::outermost); }

 private:
  static uint64_t value(uint64_t hash, WalkEnd end) { return fold(hash ^ (end == WalkEnd::too_deep), kOther); }

  static constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;
  static constexpr uint64_t kOther = LastStack::kFactor;
  static constexpr uint64_t kFirst = 0xc2b2ae3d27d4eb4f;
  uint64_t hash_ = kFirst;
  size_t depth_ = 0;
};

uint32_t frame_id(const Layout& layout, const RawFrame& raw) {
  StackKey key;
  key.add(raw);
  const uint64_t value = key.value(WalkEnd::outermost);
  if (const uint32_t known = frame_ids.find(value)) return known;
  const std::string_view file(file_text, file_of(layout, raw, file_text, kMaxText));
  const std::string_view function(function_text, function_of(layout, raw, function_text, kMaxText));
  const uint32_t id = table.add_frame(file, function, line_of(layout, raw), arena);
  if (id != 0) frame_ids.keep(value, id, table.frames(), arena);
  return id;
}

// The slow way: this raw stack was not seen before, or is no longer in the cache.
[[gnu::noinline]] StackId add_stack(const PythonReader& reader, uintptr_t thread) {
  if (arena.bytes_held() > kMostMemory) return 0;
  std::lock_guard hold(lock);
  StackKey key;
  const WalkEnd end = walk(reader.layout, PlainMemory(), reader.code_type, thread, [&](const RawFrame& frame) {
    raw_stack[key.depth()] = frame;
    key.add(frame);
  });
  if (end == WalkEnd::broken) return 0;
  StackId stack = 0;
  if (end == WalkEnd::too_deep) {
    const uint32_t frame = table.add_frame("", kDeeper, 0, arena);
    if (frame == 0 || (stack = table.add_call(0, frame, arena)) == 0) return 0;
  }
  for (size_t i = key.depth(); i-- > 0;) {
    const uint32_t frame = frame_id(reader.layout, raw_stack[i]);
    if (frame == 0 || (stack = table.add_call(stack, frame, arena)) == 0) return 0;
  }
  table.count_stack(stack, arena);
  stack_ids.keep(key.value(end), stack, table.stacks(), arena);
  for (size_t i = 0; i < key.depth(); ++i) code_generations.mark(raw_stack[i].code);  // after every key was kept
  return stack;
}

// What capture_python() does of a stack that is not the thread's last one.
[[gnu::noinline]] uint32_t capture_another(const PythonReader& reader, uintptr_t thread, uintptr_t top, uint64_t deaths,
                                           LastStack* last) {
  const PlainMemory memory;
  const auto part = [&](uintptr_t frame) -> LastStack::Part {
    RawFrame raw;
    uintptr_t previous;
    const FrameReader<Instruction::pointer, PlainMemory> frames(reader.layout, memory, reader.code_type);
    switch (frames.read(frame, raw, previous, nullptr)) {
      case FrameKind::counts:
        return {LastStack::Part::Kind::counts, StackKey::of(raw)};
      case FrameKind::left_out:
        return {LastStack::Part::Kind::left_out, 0};
      case FrameKind::broken:
        break;
    }
    return {LastStack::Part::Kind::broken, 0};
  };
  if (last && last->look(reader.layout, top, deaths, part)) {
    if (last->depth() == 0) return 0;
    StackId id = stack_ids.find(StackKey::value(*last));
    if (id == 0) id = add_stack(reader, thread);
    const uint32_t captured = marked(id);
    last->keep(captured);
    return captured;
  }
  StackKey key;
  const WalkEnd end =
      walk(reader.layout, memory, reader.code_type, thread, [&](const RawFrame& frame) { key.add(frame); });
  if (key.depth() == 0) return 0;
  const StackId id = stack_ids.find(key.value(end));
  return marked(id != 0 ? id : add_stack(reader, thread));
}

[[gnu::always_inline]] inline uint32_t captured_python() {
  const PythonReader* reader = python_reader();
  // While Python ends it frees the thread states of daemon threads that still run: those must not be looked at.
  if (reader == nullptr || reader->api.Py_IsFinalizing()) return 0;
  const auto thread = reinterpret_cast<uintptr_t>(reader->api.PyGILState_GetThisThreadState());
  if (thread == 0) return 0;
  uintptr_t top = 0;
  top_frame(reader->layout, PlainMemory(), thread, top);
  const Remembering<LastStack> memory(memories, own_place, [&] { return may_remember(*reader); });
  const uint64_t deaths = code_generations.deaths();
  const uint32_t same = memory.get() ? memory.get()->find(reader->layout, top, deaths) : 0;
  return same != 0 ? same : capture_another(*reader, thread, top, deaths, memory.get());
}

}  // namespace

PythonPosition python_position() {
  const PythonReader* reader = python_reader();
  if (reader == nullptr || reader->api.Py_IsFinalizing() || !LastStack::knows(reader->layout)) return {};
  const auto thread = reinterpret_cast<uintptr_t>(reader->api.PyGILState_GetThisThreadState());
  PythonPosition here;
  if (thread == 0 || !top_frame(reader->layout, PlainMemory(), thread, here.frame) || here.frame == 0) return {};
  PlainMemory().read(here.frame + reader->layout.frame_instruction, here.instruction);
  return here;
}

StackId capture_python() {
  return captured_python() & ~kInModuleCall;
}

Captured capture_with_call() {
  const uint32_t python = captured_python();
  return Captured(python != 0 ? python : capture_native_stack());
}

StackId capture() {
  return capture_with_call().stack();
}

StackId call_site_of(StackId id) {
  return is_native(id) ? native_call_site_of(id) : id;
}

std::vector<PythonFrame> resolve(StackId id) {
  std::vector<PythonFrame> frames;
  if (is_native(id)) return frames;
  table.for_each_frame(id, [&](const StackDepot::Frame& frame) {
    frames.push_back({std::string(frame.file), std::string(frame.function), frame.line});
  });
  leave_out_torch_function(frames, [](const PythonFrame&) { return false; });  // what its line calls is not known
  return frames;
}

Usage usage() {
  return {table.stacks(), arena.bytes_held()};
}

void before_fork() {
  before_fork_reader();
  lock.lock();
  before_fork_native_stacks();
  before_fork_native();
}

void after_fork() {
  after_fork_native();
  after_fork_native_stacks();
  lock.unlock();
  after_fork_reader();
}

std::string python_status() {
  return python::python_status();
}

[[gnu::constructor]] static void watch_code() {
  observe_code_deaths([](uintptr_t code) { code_generations.died(code); });
}

}  // namespace devtrace::stacks
