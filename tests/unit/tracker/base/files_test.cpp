#include "tracker/base/files.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace files = devtrace::files;

namespace {
std::string read(const std::string& path) {
  std::ifstream stream(path);
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

// Runs `body` in a child, since limits and signals are the process's. The child's exit code.
template <class Body>
int in_child(const Body& body) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(body());
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
}  // namespace

class Files : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(directory); }
  void TearDown() override { std::filesystem::remove_all(directory); }
  const std::string directory = testing::TempDir() + "devtrace-files-" + std::to_string(::getpid());
  const std::string path = directory + "/log";
};

TEST_F(Files, AppendsAndCreates) {
  EXPECT_EQ(files::append(path, "one\n"), 0);
  EXPECT_EQ(files::append(path, "two\n"), 0);
  EXPECT_EQ(read(path), "one\ntwo\n");
}

TEST_F(Files, AMissingDirectoryIsAnErrorNumber) {
  EXPECT_EQ(files::append(directory + "/none/log", "x"), ENOENT);
}

TEST_F(Files, AFullDiskLeavesWholeLinesAndNoSignal) {
  const int code = in_child([&] {
    if (files::append(path, "whole line\n") != 0) return 1;
    const rlimit limit{15, 15};  // SIGXFSZ, whose default is to kill, comes with the first byte past it
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 2;
    if (files::append(path, "this one does not fit\n") != EFBIG) return 3;
    return 0;
  });
  EXPECT_EQ(code, 0);
  EXPECT_EQ(read(path), "whole line\n");
}

TEST_F(Files, ABrokenPipeIsAnErrorNumberAndNoSignal) {
  const int code = in_child([] {
    int ends[2];
    if (::pipe(ends) != 0) return 1;
    ::close(ends[0]);
    return files::write_all(ends[1], "x") == EPIPE ? 0 : 2;
  });
  EXPECT_EQ(code, 0);
}

TEST_F(Files, ASignalThatWasPendingBeforeStaysForTheProgram) {
  const int code = in_child([] {
    sigset_t set, pending;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
    ::raise(SIGPIPE);
    int ends[2];
    if (::pipe(ends) != 0) return 1;
    ::close(ends[0]);
    files::write_all(ends[1], "x");
    ::sigpending(&pending);
    return sigismember(&pending, SIGPIPE) == 1 ? 0 : 2;
  });
  EXPECT_EQ(code, 0);
}
