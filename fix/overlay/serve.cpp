// What serve.py needs of C: the thread that forks. A run's Python stack begins with its program, as under Python's own
// start: a function of Python's or of ctypes' would be a frame below it.
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "fix/overlay/ports.h"
#include "fix/overlay/table.h"

namespace {

constexpr const char kMark[] = "DEVTRACE_TRIAL=";
// Where the kernel shows the environment that this process was started with.
constinit char* shown_mark = nullptr;

[[gnu::constructor]] void find_mark() {
  for (char** each = environ; each && *each; ++each)
    if (std::strncmp(*each, kMark, sizeof kMark - 1) == 0) shown_mark = *each + sizeof kMark - 1;
}

template <class Function>
Function* python(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_DEFAULT, name));
}

// The last of a fork's handlers of its end, and the first to run. Those of the libraries that were there before take
// PyTorch's tables apart: a quarter of a second of a processor.
void leave(int status, void*) {
  std::fflush(nullptr);
  ::_exit(status);
}

void* run(void* wait) {
  python<int()>("PyGILState_Ensure")();
  void* const answer = python<void*(void*, void*)>("PyObject_CallObject")(wait, nullptr);  // returns in a fork alone
  if (!answer) ::_exit(1);
  const char* const path = python<char*(void*)>("PyBytes_AsString")(answer);
  FILE* const file = std::fopen(path, "rb");
  if (!file) ::_exit(2);
  ::on_exit(leave, nullptr);
  const int failed = python<int(FILE*, const char*, int, void*)>("PyRun_AnyFileExFlags")(file, path, 1, nullptr);
  python<void(int)>("Py_Exit")(failed != 0);
  return nullptr;
}

}  // namespace

#define EXPORT __attribute__((visibility("default")))

extern "C" {

// `wait` is called in a thread that is a fork's only one, and returns the path of the program that it runs.
EXPORT int devtrace_serve(void* wait) {
  // Where the C library came in pieces, the program has the one with threads.
  using Create = int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  auto* const create = reinterpret_cast<Create*>(::dlsym(RTLD_DEFAULT, "pthread_create"));
  pthread_t thread;
  return create ? create(&thread, nullptr, run, wait) : -1;
}

// In a fork: it is found by the environment of its run, ends with devtrace, reads other text, and has its own ports.
EXPORT void devtrace_become_run() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const char* const mark = ::getenv("DEVTRACE_TRIAL");
  if (mark && shown_mark && std::strlen(mark) == std::strlen(shown_mark))
    std::memcpy(shown_mark, mark, std::strlen(mark));
  devtrace::fix::overlay::read_table_again();
  devtrace::fix::overlay::forget_ports();
}
}
