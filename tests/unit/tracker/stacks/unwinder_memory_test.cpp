#include "tracker/stacks/native/unwinder_memory.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <cerrno>
#include <filesystem>
#include <set>
#include <string>

#include "tracker/stacks/stacks.h"

namespace devtrace::stacks {
namespace {

long probe(const void* address) {
  return unwinder_syscall(SYS_write, -1, address, 1);
}

TEST(UnwinderMemory, TellsWhatCanBeRead) {
  constexpr size_t kPage = 4096;
  auto* pages =
      static_cast<char*>(mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(pages, MAP_FAILED);
  ASSERT_EQ(mprotect(pages + kPage, kPage, PROT_NONE), 0);
  EXPECT_EQ(probe(pages), 1);
  EXPECT_EQ(probe(pages + kPage - 1), 1) << "the last byte before what cannot be read";
  errno = 0;
  EXPECT_EQ(probe(pages + kPage), -1);
  EXPECT_EQ(errno, EFAULT);
  munmap(pages, 2 * kPage);
  EXPECT_EQ(probe(pages), -1);
  EXPECT_EQ(probe(nullptr), -1);
}

TEST(UnwinderMemory, ChangesNoSignalMask) {
  sigset_t before, after;
  sigfillset(&before);
  ASSERT_EQ(sigprocmask(SIG_SETMASK, nullptr, &before), 0);
  const sigset_t full = [] {
    sigset_t all;
    sigfillset(&all);
    return all;
  }();
  EXPECT_EQ(probe(&full), 1);
  ASSERT_EQ(sigprocmask(SIG_SETMASK, nullptr, &after), 0);
  for (int number = 1; number < NSIG; ++number) EXPECT_EQ(sigismember(&before, number), sigismember(&after, number));
}

std::set<std::string> pipes() {
  std::set<std::string> found;
  for (const auto& file : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(file.path(), gone).string();
    if (target.starts_with("pipe:")) found.insert(target);
  }
  return found;
}
const std::set<std::string> from_the_start = pipes();

TEST(UnwinderMemory, LibunwindKeepsNoPipe) {
  void* addresses[8];
  ASSERT_GT(capture_native(addresses, 8, 0), 0u);
  EXPECT_EQ(pipes(), from_the_start);
}

}  // namespace
}  // namespace devtrace::stacks
