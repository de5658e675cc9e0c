// A Python started inside a test or a benchmark, by dlopen: nothing of it is needed to build.
#pragma once

#include <dlfcn.h>
#include <elf.h>
#include <glob.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

namespace devtrace::testing {

constexpr int kNewest = 15;

// Under an emulator the machine's own libraries are of another processor.
inline bool is_of_this_processor(const std::string& path) {
#ifdef __x86_64__
  constexpr auto kMachine = EM_X86_64;
#else
  constexpr auto kMachine = EM_AARCH64;
#endif
  Elf64_Ehdr header{};
  std::ifstream(path, std::ios::binary).read(reinterpret_cast<char*>(&header), sizeof header);
  return header.e_machine == kMachine;
}

// Those that the loader finds, and pyenv's.
inline std::vector<std::string> libpythons() {
  std::vector<std::string> found;
  for (int minor = 9; minor <= kNewest; ++minor) {
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
    if (minor >= 9 && minor <= kNewest && is_of_this_processor(path)) found.push_back(path);
  }
  globfree(&paths);
  return found;
}

// What `story` tells in a process of its own: one starts without Python, and starts it, once only.
template <class Story>
std::string in_a_child(const Story& story) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    const std::string output = story();
    const ssize_t written = write(ends[1], output.data(), output.size());
    _exit(written == static_cast<ssize_t>(output.size()) ? 0 : 1);
  }
  close(ends[1]);
  std::string output;
  char buffer[4096];
  for (ssize_t size; (size = read(ends[0], buffer, sizeof buffer)) > 0;)
    output.append(buffer, static_cast<size_t>(size));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? output : output + " and ended badly";
}

struct MethodDef {  // PyMethodDef
  const char* name;
  void* (*function)(void*, void*);
  int flags;
  const char* doc;
};

struct EmbeddedPython {
  explicit EmbeddedPython(const std::string& path) : library(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {}
  template <class F>
  F* get(const char* name) const {
    return reinterpret_cast<F*>(dlsym(library, name));
  }
  // `builtin` is called, whatever it is given, as `name` in __main__; what it gives is 0.
  void start(const char* name, void (*builtin)()) const {
    static void (*called)();
    static void* (*number)(long);
    static MethodDef method{nullptr,
                            [](void*, void*) {
                              called();
                              return number(0);
                            },
                            3 /* METH_VARARGS | METH_KEYWORDS */, nullptr};
    called = builtin;
    number = get<void*(long)>("PyLong_FromLong");
    method.name = name;
    get<void(int)>("Py_InitializeEx")(0);
    void* function = get<void*(MethodDef*, void*, void*)>("PyCFunction_NewEx")(&method, nullptr, nullptr);
    void* module = get<void*(const char*)>("PyImport_AddModule")("__main__");
    get<int(void*, const char*, void*)>("PyObject_SetAttrString")(module, name, function);
  }
  bool run(const char* source) const { return get<int(const char*)>("PyRun_SimpleString")(source) == 0; }
  void end() const { get<int()>("Py_FinalizeEx")(); }

  void* library;
};

}  // namespace devtrace::testing
