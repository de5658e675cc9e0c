// A program is started, or it is said why not.
#include "process/start.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

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

}  // namespace
}  // namespace devtrace::process
