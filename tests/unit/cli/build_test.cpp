#include "cli/fix/build.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace fs = std::filesystem;
using devtrace::cli::build_of;

namespace {

class BuildTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "devtrace-build-XXXXXX";
    folder = fs::canonical(::mkdtemp(name.data()));
    std::ofstream(folder / "Makefile") << "app:\n";
    fs::create_directories(folder / ".venv/bin");
  }
  void TearDown() override { fs::remove_all(folder); }

  fs::path folder;
  const fs::path program = fs::canonical("/proc/self/exe");
};

TEST_F(BuildTest, AProgramOfTheFolderIsBuiltByMake) {
  fs::copy_file(program, folder / "app");
  EXPECT_EQ(build_of({"./app"}, folder), "make");
}

TEST_F(BuildTest, AnEnvironmentsPythonIsNotBuilt) {
  fs::create_symlink(program, folder / ".venv/bin/linked");
  fs::copy_file(program, folder / ".venv/bin/python3.11");
  fs::create_symlink("python3.11", folder / ".venv/bin/python");
  for (const char* word : {".venv/bin/linked", ".venv/bin/python3.11", ".venv/bin/python"})
    EXPECT_EQ(build_of({word, "train.py"}, folder), "") << word;
}

TEST_F(BuildTest, WhatIsNotThereIsNotBuilt) {
  EXPECT_EQ(build_of({"./missing"}, folder), "");
  EXPECT_EQ(build_of({"python", "train.py"}, folder), "");
}

}  // namespace
