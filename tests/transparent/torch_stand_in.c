// Preloaded into both runs as libtorch_python.so: every Python of the tree looks torch._C's function up as it begins,
// by which devtrace hooks the making of exceptions. PyTorch itself takes seconds, and is not there for every Python.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <stddef.h>

void* THPVariableClass;
void* PyInit__C(void) { return NULL; }

// `site` looks for sitecustomize, so each Python comes here before its program.
DIR* opendir(const char* folder) {
  static int looked_up;
  int (*begun)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "Py_IsInitialized");
  void* (*thread)(void) = (void* (*)(void))dlsym(RTLD_DEFAULT, "PyGILState_GetThisThreadState");
  if (!looked_up && begun && begun() && thread()) {
    looked_up = 1;
    const int before = ((int (*)(void))dlsym(RTLD_DEFAULT, "PyGILState_Ensure"))();
    dlsym(RTLD_DEFAULT, "PyInit__C");
    ((void (*)(int))dlsym(RTLD_DEFAULT, "PyGILState_Release"))(before);
  }
  return ((DIR * (*)(const char*)) dlsym(RTLD_NEXT, "opendir"))(folder);
}
