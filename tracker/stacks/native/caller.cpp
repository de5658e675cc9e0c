#include "tracker/stacks/native/caller.h"

#include <dlfcn.h>
#include <sys/auxv.h>

#include <atomic>
#include <cerrno>
#include <cstddef>

#include "tracker/stacks/stacks.h"

// The linker's: where the object begins that this code is in, and where its code ends.
extern "C" __attribute__((visibility("hidden"))) const char __ehdr_start[];
extern "C" __attribute__((visibility("hidden"))) const char etext[];

namespace devtrace::stacks::caller {
namespace {

// A hook and what it calls; one frame's bytes.
constexpr size_t kMostFrames = 8;
constexpr uintptr_t kMostBytes = 1 << 14;

constinit std::atomic<const char* const*> also_own{nullptr};

constexpr size_t kMostForeignFrames = 64;

// Code of which nothing says where it keeps its frames takes libunwind.
uintptr_t caller_of_others() {
  void* addresses[kMostForeignFrames];
  const size_t count = stacks::capture_native(addresses, kMostForeignFrames);
  const int saved = errno;
  uintptr_t found = 0;
  for (size_t i = 0; i < count && !found; ++i) {
    Dl_info info{};
    const auto address = reinterpret_cast<uintptr_t>(addresses[i]);
    if (is_own(address) || (::dladdr(addresses[i], &info) && info.dli_fname && counts_as_own(info.dli_fname))) continue;
    found = address;
  }
  errno = saved;
  return found;
}

}  // namespace

bool is_the_program() {
  static const bool answer = [] {
    const auto headers = static_cast<uintptr_t>(::getauxval(AT_PHDR));
    return headers - reinterpret_cast<uintptr_t>(__ehdr_start) < 4096;
  }();
  return answer;
}

bool is_own(uintptr_t address) {
  return address - reinterpret_cast<uintptr_t>(__ehdr_start) <
         static_cast<uintptr_t>(etext - reinterpret_cast<const char*>(__ehdr_start));
}

void called_through(const char* const* libraries) {
  also_own.store(libraries, std::memory_order_release);
}

bool counts_as_own(std::string_view path) {
  const char* const* name = also_own.load(std::memory_order_acquire);
  if (const size_t slash = path.rfind('/'); slash != path.npos) path.remove_prefix(slash + 1);
  for (; name && *name; ++name)
    if (path.starts_with(*name)) return true;
  return false;
}

Frame outermost_own(const void* innermost) {
  const auto* frame = static_cast<const uintptr_t*>(innermost);
  Frame own;
  for (size_t i = 0; i < kMostFrames; ++i) {
    const uintptr_t return_address = frame[1];
    if (!is_own(return_address)) return own;
    const uintptr_t outer = frame[0], here = reinterpret_cast<uintptr_t>(frame);
    if (outer <= here || outer - here > kMostBytes) break;
    own = {return_address, outer, here + 2 * sizeof(uintptr_t)};
    frame = reinterpret_cast<const uintptr_t*>(outer);
  }
  return {};
}

[[gnu::noinline]] uintptr_t address() {
  if (also_own.load(std::memory_order_relaxed)) return caller_of_others();
  const auto* frame = static_cast<const uintptr_t*>(__builtin_frame_address(0));
  if (!is_own(frame[1])) return frame[1] - 1;
  const Frame own = outermost_own(frame);
  return own.address == 0 ? 0 : reinterpret_cast<const uintptr_t*>(own.frame)[1] - 1;
}

}  // namespace devtrace::stacks::caller
