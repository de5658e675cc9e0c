#include "tracker/launches.h"

#include <cstring>

#include "tracker/current_thread.h"
#include "tracker/findings.h"
#include "tracker/runtime.h"
#include "tracker/unseen_memory.h"

namespace devtrace::launches {
namespace {

using kernels::Kernel;

uintptr_t word_at(const events::Launch& launch, const Kernel::Word& word) {
  uintptr_t value = 0;
  if (launch.parameters)
    std::memcpy(&value, static_cast<const char*>(launch.parameters[word.parameter]) + word.in_parameter, sizeof value);
  else if (word.in_block + sizeof value <= launch.block_bytes)
    std::memcpy(&value, static_cast<const char*>(launch.block) + word.in_block, sizeof value);
  return value;
}

Device current_device() {
  int ordinal = current_thread::device();
  if (ordinal < 0) {
    ordinal = runtime().current_device();
    if (ordinal < 0) return {};
    current_thread::set_device(ordinal);
  }
  return Device::cuda(ordinal);
}

// Exact owners, now that speed no longer counts: the table keeps owners of memory that is gone, and a word may only
// look like an address.
[[gnu::noinline]] void look_closer(const events::Launch& launch) noexcept {
  const current_thread::Inside inside;
  MisplacedLaunch misplaced{launch, {}, {}};
  misplaced.device = Device::cuda(launch.device >= 0 ? launch.device : runtime().current_device());
  if (!misplaced.device.is_cuda()) return;
  if (launch.device < 0) current_thread::set_device(misplaced.device.index);
  bool elsewhere = false;
  unsigned questions = unseen_memory::kQuestions;
  try {
    for (const Kernel::Word& word : launch.kernel->words) {
      const uintptr_t address = word_at(launch, word);
      unseen_memory::learn(address, questions);
      if (!ownership::likely(address).known()) continue;
      const auto extent = ownership::find(address);
      if (!extent || extent->memory != ownership::Memory::device) continue;
      if (extent->asked && !unseen_memory::still_there(address)) continue;
      misplaced.pointers.push_back({address, extent->device, word.parameter, word.in_parameter});
      elsewhere = elsewhere || extent->device != misplaced.device;
    }
    if (elsewhere) findings::report(misplaced);
  } catch (...) {  // out of memory: one report is lost, the launch goes on
  }
}

}  // namespace

void check(const events::Launch& launch) {
  if (!launch.kernel || launch.kernel->excused) return;
  const Device here = launch.device >= 0 ? Device::cuda(launch.device) : current_device();
  for (const Kernel::Word& word : launch.kernel->words) {
    if (ownership::suspicious(word_at(launch, word), here)) return look_closer(launch);
  }
}

}  // namespace devtrace::launches
