#include "tracker/memory/device_history.h"

#include <cstddef>
#include <cstring>

#include "tracker/base/clock.h"

namespace devtrace::memory::device_history {
namespace {

// A stack of choices: each stands on the one that it may yet give way to. Guards nest a few deep. Plain data, no
// destructor: hooks still run while a thread's destructors do.
constexpr size_t kKept = 8;
struct Choices {
  Choice kept[kKept];
  size_t count = 0;
  int default_device = 0;
};
thread_local constinit Choices choices{};

}  // namespace

void chosen(int device) {
  const stacks::StackId stack = stacks::capture_python();
  Choice* const kept = choices.kept;
  size_t& count = choices.count;
  if (count > 0 && kept[count - 1].stack == stack) {
    const int before = count > 1 ? kept[count - 2].device : choices.default_device;
    if (before == device) {
      --count;
      return;
    }
    if (kept[count - 1].device == device) return;
  }
  if (count == kKept) {
    std::memmove(kept, kept + 1, (kKept - 1) * sizeof *kept);
    --count;
    choices.default_device = -2;  // no longer what is below
  }
  kept[count++] = {device, stack, now_coarse()};
}

std::optional<Choice> last() {
  if (choices.count == 0) return std::nullopt;
  return choices.kept[choices.count - 1];
}

std::vector<Choice> kept() {
  return {choices.kept, choices.kept + choices.count};
}

}  // namespace devtrace::memory::device_history
