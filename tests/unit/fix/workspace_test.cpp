// A run's folder and processes are gone when the workspace is.
#include "fix/trials/workspace.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "fix/record/outcome.h"
#include "fix/trials/child.h"

namespace devtrace::fix {
namespace {

namespace fs = std::filesystem;

ProgramToRun shell(const std::string& line, const fs::path& mark) {
  return {{{"/bin/sh", "-c", line}, {{"PATH", "/usr/bin:/bin"}, {kMark, mark.string()}}}, {}};
}

bool eventually(const std::function<bool()>& holds) {
  for (int i = 0; i < 500; ++i) {
    if (holds()) return true;
    usleep(10'000);
  }
  return false;
}

TEST(Workspace, NothingIsLeft) {
  fs::path folder;
  pid_t left = 0;
  {
    const Workspace workspace;
    folder = workspace.folder();
    const fs::path run = workspace.make("run-1");
    // Out of the process group, as launchers of several processes do.
    Child child(shell("setsid sh -c 'echo $$ > " + (run / "pid").string() + "; exec sleep 100' & wait", run),
                run / "output");
    ASSERT_TRUE(eventually([&] { return fs::exists(run / "pid") && fs::file_size(run / "pid") > 0; }));
    std::ifstream(run / "pid") >> left;
    ASSERT_EQ(kill(left, 0), 0);
  }
  EXPECT_FALSE(fs::exists(folder));
  EXPECT_TRUE(eventually([&] { return kill(left, 0) != 0; }));
}

TEST(Workspace, OnlyItsOwnProcessesAreKilled) {
  const Workspace workspace;
  const fs::path one = workspace.make("run-1"), other = workspace.make("run-10");
  Child killed(shell("exec sleep 100", one), one / "output"), kept(shell("exec sleep 100", other), other / "output");
  ASSERT_TRUE(eventually([&] { return kill_all_of(one) > 0; }));
  EXPECT_TRUE(eventually([&] { return killed.ended(); }));
  EXPECT_EQ(killed.code(), 128 + SIGKILL);
  EXPECT_FALSE(kept.ended());
}

TEST(Child, ItsCodeAndItsOutput) {
  const Workspace workspace;
  const fs::path run = workspace.make("run-1");
  Child child(shell("echo said; echo 'ValueError: also' >&2; exit 7", run), run / "output");
  ASSERT_TRUE(eventually([&] { return child.ended(); }));
  EXPECT_EQ(child.code(), 7);
  EXPECT_EQ(read_outcome(run).last_line, "ValueError: also");
}

TEST(Child, OneThatCannotBeStarted) {
  const Workspace workspace;
  ProgramToRun program{{{"no-such-program-anywhere"}, {{"PATH", "/usr/bin"}}}, {}};
  try {
    Child child(program, workspace.folder() / "output");
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "cannot run 'no-such-program-anywhere': No such file or directory");
  }
}

TEST(Child, OneThatDoesNotEndWhenAsked) {
  const Workspace workspace;
  const fs::path run = workspace.make("run-1");
  Child child(shell("trap '' TERM; echo ready > " + (run / "ready").string() + "; while :; do sleep 0.1; done", run),
              run / "output");
  ASSERT_TRUE(eventually([&] { return fs::exists(run / "ready"); }));
  child.end(run);
  EXPECT_TRUE(child.ended());
}

}  // namespace
}  // namespace devtrace::fix
