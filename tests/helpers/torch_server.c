// The thread of torch_server.py that forks. A child's Python stack begins with its program, as under Python's own
// start: a function of Python's or ctypes' would be a frame below it.
#define _DEFAULT_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct _object PyObject;
extern int PyGILState_Ensure(void);
extern PyObject* PyObject_CallObject(PyObject*, PyObject*);
extern char* PyBytes_AsString(PyObject*);
extern int PyRun_AnyFileExFlags(FILE*, const char*, int, void*);
extern void Py_Exit(int);

// The first handler of the child is the last to run: those of the server's libraries take PyTorch's tables of operators
// apart, a quarter of a second of a processor. devtrace writes its end in _exit, too.
static void leave(int status, void* unused) {
  (void)unused;
  fflush(NULL);
  _exit(status);
}

static void* run(void* wait) {
  PyGILState_Ensure();
  const char* path = PyBytes_AsString(PyObject_CallObject(wait, NULL));  // returns in a child alone
  const char* options = getenv("DEVTRACE_OPTIONS");
  if (!options || !strstr(options, "error_exitcode")) on_exit(leave, NULL);  // that code is given at exit alone
  Py_Exit(PyRun_AnyFileExFlags(fopen(path, "rb"), path, 1, NULL) != 0);
  return NULL;
}

// `wait` returns the path of the program that the child runs.
int start(PyObject* wait) {
  pthread_t thread;
  return pthread_create(&thread, NULL, run, wait);
}
