// A process is started, or it is said why not; what the kernel says of one.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "process/maps.h"
#include "process/output.h"
#include "process/start.h"
#include "process/status.h"
#include "tests/unit/emulated.h"

namespace devtrace::process {
namespace {

const std::function<bool()> kNothing = [] { return true; };

int code_of(pid_t child) {
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int error_of(const Program& program, const std::function<bool()>& prepare) {
  try {
    start(program, prepare);
  } catch (const CannotStart& problem) {
    EXPECT_EQ(problem.what(), "cannot run '" + program.words[0] + "': " + std::strerror(problem.error));
    return problem.error;
  }
  return 0;
}

TEST(Start, WithItsWordsItsEnvironmentAndWhatWasPrepared) {
  const Program program{{"/bin/sh", "-c", "exit $(($1 + N + $(pwd | wc -c)))", "sh", "3"},
                        {{"PATH", "/usr/bin:/bin"}, {"N", "20"}}};
  EXPECT_EQ(code_of(start(program, [] { return chdir("/") == 0; })), 25) << "3, 20, a slash and a line's end";
}

TEST(Start, WhatCannotBeRun) {
  EXPECT_EQ(error_of({{"no-such-program-anywhere"}, {}}, kNothing), ENOENT);
  EXPECT_EQ(error_of({{"/etc/passwd"}, {}}, kNothing), EACCES);
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "and no process is left";
}

TEST(Start, WhatCannotBePrepared) {
  EXPECT_EQ(error_of({{"/bin/true"}, {}}, [] { return chdir("/no-such-folder") == 0; }), ENOENT);
}

TEST(Process, AMappingIsReadAsTheKernelWritesIt) {
  const auto mapping = parse_mapping(
      "7f12a0000000-7f12a0021000 r-xp 00028000 fe:01 1234       /usr/lib/a library with blanks.so (deleted)");
  ASSERT_TRUE(mapping);
  EXPECT_EQ(mapping->begin, 0x7f12a0000000u);
  EXPECT_EQ(mapping->end, 0x7f12a0021000u);
  EXPECT_TRUE(mapping->executable);
  EXPECT_EQ(mapping->offset, 0x28000u);
  EXPECT_EQ(mapping->path, "/usr/lib/a library with blanks.so (deleted)");
  EXPECT_EQ(mapping->file(), "a library with blanks.so (deleted)");
  EXPECT_FALSE(parse_mapping("7f12-7f13 rw-p 00000000 00:00 0")->executable);
  EXPECT_EQ(parse_mapping("7f12-7f13 rw-p 00000000 00:00 0")->path, "");
  for (const char* line : {"", "7f12", "7f12a0000000 r-xp 0 0:0 0", "words that are no mapping"})
    EXPECT_FALSE(parse_mapping(line)) << line;
}

TEST(Process, AStatusIsReadAsTheKernelWritesIt) {
  const Status status = parse_status(
      "Name:\tmy server (old)\nUmask:\t0022\nState:\tT "
      "(stopped)\nTgid:\t76\nTracerPid:\t77\nUid:\t1000\t1001\t1000\t1000\n");
  EXPECT_EQ(status.name, "my server (old)");
  EXPECT_EQ(status.state, 'T');
  EXPECT_EQ(status.tracer, 77);
  EXPECT_EQ(status.group, 76);
  EXPECT_EQ(status.user, 1000u);
}

TEST(Process, WhatIsNotThereHasNoStatus) {
  EXPECT_FALSE(status_of(0));
  EXPECT_FALSE(status_of(-1));
  EXPECT_FALSE(status_of(1 << 30));
  EXPECT_EQ(start_ticks_of(1 << 30), 0u);
}

TEST(Process, ThisOneIsKnown) {
  const auto status = status_of(getpid());
  ASSERT_TRUE(status);
  EXPECT_EQ(status->user, getuid());
  EXPECT_TRUE(status->same_pid_namespace);
  EXPECT_GT(start_ticks_of(getpid()), 0u);
  EXPECT_EQ(std::ranges::count(threads_of(getpid()), getpid()), 1);
  if (emulated()) GTEST_SKIP() << "qemu's user mode maps no vdso";
  EXPECT_TRUE(std::ranges::any_of(mappings_of(getpid()), [](const Mapping& each) { return each.path == "[vdso]"; }));
}

TEST(Process, ChildrenOfChildrenAreDescendants) {
  int ready[2], end[2];
  ASSERT_EQ(pipe(ready), 0);
  ASSERT_EQ(pipe(end), 0);
  const pid_t child = fork();
  if (child == 0) {
    const pid_t grandchild = fork();
    char byte;
    close(end[1]);
    if (grandchild != 0 && write(ready[1], &grandchild, sizeof grandchild) < 0) _exit(1);
    [[maybe_unused]] const ssize_t ignored = read(end[0], &byte, 1);
    _exit(0);
  }
  pid_t grandchild = 0;
  ASSERT_EQ(read(ready[0], &grandchild, sizeof grandchild), static_cast<ssize_t>(sizeof grandchild));
  EXPECT_EQ(descendants_of(getpid()), (std::vector<pid_t>{child, grandchild}));
  EXPECT_EQ(descendants_of(grandchild), std::vector<pid_t>());
  close(end[1]);
  waitpid(child, nullptr, 0);
}

TEST(Process, WhatAProgramWritesIsTaken) {
  const auto shell = [](const char* script, int patience, bool errors) {
    return output_of({{"sh", "-c", script}, own_environment()}, "/", patience, errors);
  };
  const Ended both = shell("cat; pwd; echo wrong >&2; exit 3", 10'000, true);
  EXPECT_EQ(both.output, "/\nwrong\n");
  EXPECT_TRUE(WIFEXITED(both.status) && WEXITSTATUS(both.status) == 3);
  EXPECT_EQ(shell("echo right; echo wrong >&2", 10'000, false).output, "right\n");
  const Ended silent = shell("exec sleep 600", 50, true);
  EXPECT_TRUE(silent.started && WIFSIGNALED(silent.status)) << "one that says nothing for too long is killed";
  EXPECT_FALSE(output_of({{"/no/such/program"}, {}}, "", 10'000, true).started);
}

}  // namespace
}  // namespace devtrace::process
