#include "attach/safe_point.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>

using namespace devtrace::attach;
namespace process = devtrace::process;

namespace {

const UnsafeCode kUnsafe = {.never = {{0x1000, 0x2000}, {0x5010, 0x5020}}, .c_library = {{0x5000, 0x6000}}};

bool safe(uintptr_t instruction, long system_call, std::vector<uintptr_t> stack = {}) {
  return is_safe({instruction, system_call, stack}, kUnsafe);
}

}  // namespace

TEST(SafePoint, TheProgramsOwnCodeIsOne) {
  EXPECT_TRUE(safe(0x9000, -1, {0, 1, 0x9100, 0x5030}));
}

TEST(SafePoint, TheLoaderTheAllocatorAndTheCLibraryAreNone) {
  EXPECT_FALSE(safe(0x1000, -1));
  EXPECT_FALSE(safe(0x5018, -1));
  EXPECT_FALSE(safe(0x5fff, -1));
  EXPECT_TRUE(safe(0x6000, -1));
}

TEST(SafePoint, NorIsWhatTheseHaveCalled) {
  EXPECT_FALSE(safe(0x9000, -1, {0x9100, 0x1fff}));
  EXPECT_FALSE(safe(0x5030, SYS_futex, {0x9100, 0x5012}));
}

TEST(SafePoint, AThreadThatWaitsInASystemCallIsAtOne) {
  for (const long number : {SYS_futex, SYS_epoll_pwait, SYS_read, SYS_clock_nanosleep, SYS_ioctl})
    EXPECT_TRUE(safe(0x5030, number, {0x9100, 0x5030})) << number;
  // The allocator, the loader and thread creation make these.
  for (const long number : {SYS_mmap, SYS_munmap, SYS_brk, SYS_openat, SYS_clone, SYS_mprotect, SYS_madvise})
    EXPECT_FALSE(safe(0x5030, number)) << number;
  EXPECT_FALSE(safe(0x1010, SYS_read)) << "the loader reads, too";
}

TEST(SafePoint, OfThisProcessTheLoaderAndMallocAreKnown) {
  const process::RemoteMemory memory(getpid());
  const auto objects = loaded_objects(process::mappings_of(getpid()));
  const UnsafeCode unsafe = unsafe_code(memory, objects);
  for (const LoadedObject& each : objects) {
    const RemoteObject symbols(memory, each.start);
    if (each.file().starts_with("ld-")) {
      EXPECT_FALSE(is_safe({each.code[0].begin, -1, {}}, unsafe)) << each.path;
    }
    if (const Range found = symbols.symbol("malloc"); found.begin != 0) {
      EXPECT_FALSE(is_safe({found.begin, SYS_futex, {}}, unsafe)) << each.path;
    }
  }
  EXPECT_TRUE(is_safe({reinterpret_cast<uintptr_t>(&safe), -1, {}}, unsafe));
}
