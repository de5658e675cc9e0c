// A program that has no Python, then starts one, ends it, and starts it again.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/tracker/stacks/embedded_python.h"
#include "tracker/stacks/stacks.h"

namespace devtrace::stacks {
namespace {

StackId taken = 0;
std::vector<StackId> all_taken;
bool called_malloc = false;

void take() {
  const size_t before = mallinfo2().uordblks;
  taken = capture_python();
  called_malloc = called_malloc || mallinfo2().uordblks != before;
  all_taken.push_back(taken);
}

std::string described(StackId id) {
  std::string text;
  for (const PythonFrame& frame : resolve(id)) text += frame.function + ":" + std::to_string(frame.line) + " ";
  return text;
}

constexpr const char* kProgram = "def inner():\n take()\ndef outer():\n inner()\nouter()";

// Different functions and lines, in frames that lie at the same addresses.
constexpr const char* kSamePlaces = R"py(
def a(): take()
def b():
  take()
def call(f):
  f()
  f()
for f in (a, b, a, b): call(f)
for i in range(20):
  exec("def c():" + "\n" * i + " take()")
  call(c)
)py";

std::string at_the_same_places(const devtrace::testing::EmbeddedPython& python) {
  all_taken.clear();
  if (!python.run(kSamePlaces)) return "the program of the same places failed";
  std::vector<std::string> expected;
  const auto called = [&](const char* what, int line, int from) {
    for (int call : {6, 7}) {
      std::ostringstream text;
      text << what << ":" << line << " call:" << call << " <module>:" << from << " ";
      expected.push_back(text.str());
    }
  };
  for (int i = 0; i < 2; ++i) {
    called("a", 2, 8);
    called("b", 4, 8);
  }
  for (int i = 0; i < 20; ++i) called("c", i + 1, 11);
  if (all_taken.size() != expected.size()) return "another number of stacks";
  for (size_t i = 0; i < expected.size(); ++i)
    if (described(all_taken[i]) != expected[i]) return described(all_taken[i]) + "in place of " + expected[i];
  return "";
}

// What went wrong; empty: nothing. Runs in a child of its own: a process starts without Python once only.
std::string story(const std::string& path) {
  const auto later = [] { std::this_thread::sleep_for(std::chrono::milliseconds(150)); };  // a look is taken this often
  if (!python_status().empty()) return "status before the first try";
  if (capture_python() != 0 || python_status() != "no Python in this process")
    return "without Python: " + python_status();
  const devtrace::testing::EmbeddedPython python(path);
  if (python.library == nullptr) return dlerror();
  later();
  if (capture_python() != 0) return "loaded, not started";
  python.start("take", take);
  later();
  if (!python.run(kProgram)) return "the program failed";
  if (described(taken) != "inner:2 outer:4 <module>:5 ") return "started: " + described(taken) + python_status();
  if (!python.run("for i in range(1000): len('')")) return "the loop failed";
  if (python_status().find("agree with Python's own") == std::string::npos) return python_status();
  if (called_malloc) return "a capture called malloc";
  if (const std::string wrong = at_the_same_places(python); !wrong.empty()) return wrong;
  StackId other = 1;
  std::thread([&] { other = capture_python(); }).join();
  if (other != 0) return "a thread that Python does not know has a stack";
  errno = 77;
  capture_python();
  if (errno != 77) return "errno changed";
  python.end();
  if (capture_python() != 0) return "a stack after the end";
  python.start("take", take);
  taken = 0;
  if (!python.run(kProgram)) return "the program failed the second time";
  if (described(taken) != "inner:2 outer:4 <module>:5 ") return "started again: " + described(taken);
  python.end();
  return capture_python() == 0 ? "" : "a stack after the second end";
}

// The story's outcome, told by a child.
std::string outcome(const std::string& path) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  std::fflush(nullptr);  // Python's end flushes whatever the child inherits
  const pid_t child = fork();
  if (child == 0) {
    const std::string wrong = story(path);
    _exit(write(ends[1], wrong.data(), wrong.size()) == static_cast<ssize_t>(wrong.size()) ? 0 : 1);
  }
  close(ends[1]);
  std::string wrong(1000, ' ');
  wrong.resize(std::max<ssize_t>(0, read(ends[0], wrong.data(), wrong.size())));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return status == 0 ? wrong : "ended with status " + std::to_string(status);
}

TEST(Embedding, PythonComesAndGoes) {
  const auto paths = devtrace::testing::libpythons();
  if (paths.empty()) GTEST_SKIP() << "no shared libpython 3.9 to 3.13 known to the loader or in pyenv";
  for (const std::string& path : paths) EXPECT_EQ(outcome(path), "") << path;
}

}  // namespace
}  // namespace devtrace::stacks
