#include "tracker/memory/device_history.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <utility>

#include "tracker/base/clock.h"
#include "tracker/base/process_start.h"
#include "tracker/base/thread_state.h"
#include "tracker/stacks/native/device_guard.h"

namespace devtrace::memory::device_history {
namespace {

// A stack of choices: each stands on the one that it may yet give way to. Guards nest a few deep. Only its thread
// writes; others may read while it does, and then read again.
constexpr size_t kKept = 8;
struct Choices {
  struct Place {
    std::atomic<int> device;
    std::atomic<stacks::StackId> stack;
    std::atomic<uint64_t> time;

    Choice get() const {
      return {device.load(std::memory_order_relaxed), stack.load(std::memory_order_relaxed),
              time.load(std::memory_order_relaxed)};
    }
    void set(const Choice& choice) {
      device.store(choice.device, std::memory_order_relaxed);
      stack.store(choice.stack, std::memory_order_relaxed);
      time.store(choice.time, std::memory_order_relaxed);
    }
  };
  std::atomic<uint32_t> version{0};  // odd: being written
  std::atomic<uint32_t> thread{0};
  std::array<Place, kKept> kept{};
  std::atomic<uint32_t> count{0};
  // What follows is its thread's alone.
  // A guard lasts. What it has chosen stands in the first place behind those that count, the line that has it in the
  // next one: variables of threads are to be small. Nearly all guards come to their end before anybody asks, and nobody
  // has taken a stack of them.
  bool guarded = false;
  bool begun = false;  // a guard was what set the device last
  // Devices, a bit each. A guard puts no device back that has no context yet; PyTorch then takes that for the current
  // one, and CUDA the other one. So a guard is known to come back only where others have, and where the last one did.
  uint16_t come_back_to = 0;
  std::atomic<int> default_device{0};

  size_t size() const { return count.load(std::memory_order_relaxed); }

  stacks::PythonPosition guard_line() const {
    const Choice line = kept[size() + 1].get();
    return {line.time, static_cast<uint32_t>(line.device) | uintptr_t{line.stack} << 32};
  }
  void begin_guard(int device, uint64_t time, const stacks::PythonPosition& line) {
    kept[size()].set({device, 0, time});
    kept[size() + 1].set(
        {static_cast<int>(line.instruction), static_cast<stacks::StackId>(line.instruction >> 32), line.frame});
    guarded = true;
  }
  bool has_room_for_guard() const { return size() + 2 <= kKept; }
};
static_assert(sizeof(Choices) <= 152);

// Those of the first threads that chose a device outlive them: who moved a tensor may be gone. Where there is no place
// left, a thread keeps its own to itself. Plain data, no destructor: hooks still run while a thread's destructors do.
constexpr size_t kThreads = 256;
constinit std::array<Choices, kThreads> all{};
constinit std::atomic<size_t> taken{0};
thread_local constinit Choices own{};
thread_local constinit Choices* mine = nullptr;

Choices& choices() {
  if (!mine) {
    const size_t place = taken.load(std::memory_order_relaxed) < kThreads ? taken.fetch_add(1) : kThreads;
    mine = place < kThreads ? &all[place] : &own;
  }
  return *mine;
}

// When devtrace was attached again: what was chosen earlier may have changed since.
constinit std::atomic<uint64_t> forgotten{0};
bool holds(const Choice& choice) {
  return choice.time >= forgotten.load(std::memory_order_relaxed);
}

class Writing {
 public:
  explicit Writing(Choices& choices) : choices_(choices) {
    choices_.version.fetch_add(1, std::memory_order_acq_rel);
    choices_.thread.store(thread_state::id(), std::memory_order_relaxed);  // another one in a fork's child
  }
  ~Writing() { choices_.version.fetch_add(1, std::memory_order_release); }
  Writing(const Writing&) = delete;
  Writing& operator=(const Writing&) = delete;

 private:
  Choices& choices_;
};

struct Copy {
  uint32_t thread = 0;
  std::vector<Choice> kept;
  bool complete = false;  // nothing older was dropped
};

// Nothing while the thread goes on changing them.
std::optional<Copy> copy_of(const Choices& choices) {
  for (int attempt = 0; attempt < 100; ++attempt) {
    const uint32_t before = choices.version.load(std::memory_order_acquire);
    if (before % 2 != 0) continue;
    Copy copy;
    copy.thread = choices.thread.load(std::memory_order_relaxed);
    copy.complete = choices.default_device.load(std::memory_order_relaxed) >= 0;
    for (size_t i = 0; i < choices.size() && i < kKept; ++i) copy.kept.push_back(choices.kept[i].get());
    std::atomic_thread_fence(std::memory_order_acquire);
    if (choices.version.load(std::memory_order_relaxed) == before) return copy;
  }
  return std::nullopt;
}

// The device of what the last choice stands on; with `less` 0 of that itself.
int device_below(const Choices& choices, size_t less) {
  const size_t count = choices.size();
  return count > less ? choices.kept[count - less - 1].device.load(std::memory_order_relaxed)
                      : choices.default_device.load(std::memory_order_relaxed);
}

constexpr uint16_t bit_of(int device) {
  return device >= 0 && device < 16 ? static_cast<uint16_t>(1u << device) : uint16_t{0};
}

void push(Choices& choices, const Choice& choice) {
  size_t count = choices.size();
  if (count == kKept) {
    for (size_t i = 1; i < kKept; ++i) choices.kept[i - 1].set(choices.kept[i].get());
    --count;
    choices.default_device = -2;  // no longer what is below
  }
  choices.kept[count].set(choice);
  choices.count.store(static_cast<uint32_t>(count + 1), std::memory_order_relaxed);
}

// For who wants to know of it while it lasts, or makes another choice: its stack is that of now. Where its line has
// gone on, or has called other code of Python's, nobody knows that: then it is left out.
[[gnu::noinline]] void keep_begun_guard(Choices& choices) {
  const bool stands = stacks::python_position() == choices.guard_line();
  choices.guarded = false;
  if (!stands) {
    choices.come_back_to &= static_cast<uint16_t>(~bit_of(device_below(choices, 0)));
    return;
  }
  Choice choice = choices.kept[choices.size()].get();
  choice.stack = stacks::capture();
  const Writing writing(choices);
  push(choices, choice);
}
void keep_guard(Choices& choices) {
  if (choices.guarded) [[unlikely]]
    keep_begun_guard(choices);
}

// The time of a guard that begins: what the thread does in it is later. The clock is asked only where the thread's last
// time is from before forget_all(), for such a choice would not hold.
uint64_t time_of_guard() {
  const uint64_t time = next_in_order();
  return time >= forgotten.load(std::memory_order_relaxed) ? time : now_in_order(false);
}

[[gnu::noinline]] void keep(Choices& choices, int device, bool begins) {
  const stacks::StackId stack = stacks::capture();
  const Writing writing(choices);
  if (const size_t count = choices.size(); count > 0) {
    const Choice last = choices.kept[count - 1].get();
    if (last.stack == stack || stacks::call_site_of(last.stack) == stacks::call_site_of(stack)) {
      if (device_below(choices, 1) == device) {
        if (!begins) choices.come_back_to |= bit_of(device);
        return choices.count.store(static_cast<uint32_t>(count - 1), std::memory_order_relaxed);
      }
      if (last.device == device) return;
    }
  }
  push(choices, {device, stack, now_in_order(stacks::is_native(stack))});
}

}  // namespace

void chosen(int device, const void* hook) {
  Choices& choices = device_history::choices();
  const stacks::PythonPosition here = stacks::python_position();
  const bool begins = here && stacks::caller::is_device_guard(hook);
  const bool follows = std::exchange(choices.begun, begins);
  if (choices.guarded && !begins && choices.guard_line() == here && device_below(choices, 0) == device) {
    choices.guarded = false;
    return;
  }
  keep_guard(choices);
  if (begins && !follows && (choices.come_back_to & bit_of(device_below(choices, 0))) != 0 &&
      choices.has_room_for_guard())
    return choices.begin_guard(device, time_of_guard(), here);
  keep(choices, device, begins);
}

std::optional<Choice> last() {
  if (mine) keep_guard(*mine);
  if (!mine || mine->size() == 0) return std::nullopt;
  const Choice choice = mine->kept[mine->size() - 1].get();
  return holds(choice) ? std::optional(choice) : std::nullopt;
}

std::vector<Choice> kept() {
  if (mine) keep_guard(*mine);
  std::vector<Choice> found;
  for (size_t i = 0; mine && i < mine->size(); ++i)
    if (const Choice choice = mine->kept[i].get(); holds(choice)) found.push_back(choice);
  return found;
}

AtATime held_at(uint32_t thread, uint64_t time) {
  if (mine) keep_guard(*mine);
  AtATime answer;
  bool incomplete = taken.load(std::memory_order_relaxed) >= kThreads;
  const auto look = [&](const Choices& choices) {
    const std::optional<Copy> copy = copy_of(choices);
    if (!copy) {
      incomplete = true;
      return;
    }
    if (copy->thread != thread) return;
    bool found = false;
    for (const Choice& choice : copy->kept) {
      if (choice.time > time) break;
      if (!holds(choice)) continue;
      found = true;
      if (!answer.choice || choice.time >= answer.choice->time) answer.choice = choice;
    }
    if (!found && !copy->complete) incomplete = true;
  };
  for (size_t i = 0; i < kThreads && i < taken.load(std::memory_order_acquire); ++i) look(all[i]);
  answer.by_default = !answer.choice && !incomplete && seen_from_start();
  return answer;
}

bool seen_from_start() {
  return process_start::attached() == 0;
}

void forget_all() {
  forgotten.store(now_exact());
}

}  // namespace devtrace::memory::device_history
