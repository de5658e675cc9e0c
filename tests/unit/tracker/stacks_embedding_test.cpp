// A program that has no Python, then starts one, ends it, and starts it again.
#include <dlfcn.h>
#include <glob.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "tracker/stacks.h"

namespace devtrace::stacks {
namespace {

// Those that the loader finds, and pyenv's.
std::vector<std::string> libpythons() {
  std::vector<std::string> found;
  for (int minor = 9; minor <= 13; ++minor) {
    const std::string name = "libpython3." + std::to_string(minor) + ".so.1.0";
    if (void* library = dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL)) {
      dlclose(library);
      found.push_back(name);
    }
  }
  const char* root = std::getenv("PYENV_ROOT");
  const char* home = std::getenv("HOME");
  const std::string pyenv = root != nullptr ? root : std::string(home == nullptr ? "" : home) + "/.pyenv";
  glob_t paths{};
  glob((pyenv + "/versions/3.*/lib/libpython3.*.so.1.0").c_str(), 0, nullptr, &paths);
  for (size_t i = 0; i < paths.gl_pathc; ++i) {
    const std::string path = paths.gl_pathv[i];
    const int minor = std::atoi(path.c_str() + path.rfind("libpython3.") + 11);
    if (minor >= 9 && minor <= 13) found.push_back(path);
  }
  globfree(&paths);
  return found;
}

struct MethodDef {  // PyMethodDef
  const char* name;
  void* (*function)(void*, void*);
  int flags;
  const char* doc;
};

StackId taken = 0;
void* (*none_of_interest)(long) = nullptr;  // PyLong_FromLong

void* take(void*, void*) {
  taken = capture_python();
  return none_of_interest(0);
}

struct Python {
  explicit Python(const std::string& path) : library(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {}
  template <class F>
  F* get(const char* name) const {
    return reinterpret_cast<F*>(dlsym(library, name));
  }
  void start() const {
    static MethodDef method{"take", take, 4 /* METH_NOARGS */, nullptr};
    none_of_interest = get<void*(long)>("PyLong_FromLong");
    get<void(int)>("Py_InitializeEx")(0);
    void* function = get<void*(MethodDef*, void*, void*)>("PyCFunction_NewEx")(&method, nullptr, nullptr);
    void* module = get<void*(const char*)>("PyImport_AddModule")("__main__");
    get<int(void*, const char*, void*)>("PyObject_SetAttrString")(module, "take", function);
  }
  bool run(const char* source) const { return get<int(const char*)>("PyRun_SimpleString")(source) == 0; }
  void end() const { get<int()>("Py_FinalizeEx")(); }

  void* library;
};

std::string described(StackId id) {
  std::string text;
  for (const PythonFrame& frame : resolve(id)) text += frame.function + ":" + std::to_string(frame.line) + " ";
  return text;
}

constexpr const char* kProgram = "def inner():\n take()\ndef outer():\n inner()\nouter()";

// What went wrong; empty: nothing. Runs in a child of its own: a process starts without Python once only.
std::string story(const std::string& path) {
  const auto later = [] { std::this_thread::sleep_for(std::chrono::milliseconds(150)); };  // a look is taken this often
  if (!python_status().empty()) return "status before the first try";
  if (capture_python() != 0 || python_status() != "no Python in this process")
    return "without Python: " + python_status();
  const Python python(path);
  if (python.library == nullptr) return dlerror();
  later();
  if (capture_python() != 0) return "loaded, not started";
  python.start();
  later();
  if (!python.run(kProgram)) return "the program failed";
  if (described(taken) != "inner:2 outer:4 <module>:5 ") return "started: " + described(taken) + python_status();
  if (!python.run("for i in range(1000): len('')")) return "the loop failed";
  if (python_status().find("agree with Python's own") == std::string::npos) return python_status();
  StackId other = 1;
  std::thread([&] { other = capture_python(); }).join();
  if (other != 0) return "a thread that Python does not know has a stack";
  python.end();
  if (capture_python() != 0) return "a stack after the end";
  python.start();
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
  const auto paths = libpythons();
  if (paths.empty()) GTEST_SKIP() << "no shared libpython 3.9 to 3.13 known to the loader or in pyenv";
  for (const std::string& path : paths) EXPECT_EQ(outcome(path), "") << path;
}

}  // namespace
}  // namespace devtrace::stacks
