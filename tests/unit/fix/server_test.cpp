// Which programs run in forks of a process that has imported what they import: tests/e2e/fix/test_forks.py runs some.
#include "fix/trials/server.h"

#include <gtest/gtest.h>

#include <fstream>

#include "fix/trials/workspace.h"

namespace devtrace::fix {
namespace {

TEST(Server, TheMainFileIsThatOfPythonWithOptions) {
  const Workspace workspace;
  const auto folder = workspace.make("program");
  std::ofstream(folder / "train.py") << "\n";
  const auto main = [&](std::vector<std::string> words) {
    ProgramToRun program;
    program.words = std::move(words);
    program.folder = folder;
    return Server::main_file(program);
  };
  EXPECT_EQ(main({"python", "train.py", "-m", "x"}), folder / "train.py");
  EXPECT_EQ(main({"/opt/venv/bin/python3.12", "-u", "-W", "error", "-X", "dev", "train.py"}), folder / "train.py");
  EXPECT_EQ(main({"python", (folder / "train.py").string()}), folder / "train.py");
  EXPECT_FALSE(main({"python", "-m", "train.py"}));
  EXPECT_FALSE(main({"python", "-c", "train.py"}));
  EXPECT_FALSE(main({"python", "-um", "train.py"})) << "options in one word";
  EXPECT_FALSE(main({"python", "other.py"})) << "no such file";
  EXPECT_FALSE(main({"python"}));
  EXPECT_FALSE(main({"torchrun", "train.py"}));
  EXPECT_FALSE(main({}));
}

}  // namespace
}  // namespace devtrace::fix
