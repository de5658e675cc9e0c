// The thread of torch_server.py that forks. A child's Python stack begins with its program, as under Python's own
// start: a function of Python's or ctypes' would be a frame below it.
#include <pthread.h>
#include <stdio.h>

typedef struct _object PyObject;
extern int PyGILState_Ensure(void);
extern PyObject* PyObject_CallObject(PyObject*, PyObject*);
extern char* PyBytes_AsString(PyObject*);
extern int PyRun_AnyFileExFlags(FILE*, const char*, int, void*);
extern void Py_Exit(int);

static void* run(void* wait) {
  PyGILState_Ensure();
  const char* path = PyBytes_AsString(PyObject_CallObject(wait, NULL));  // returns in a child alone
  Py_Exit(PyRun_AnyFileExFlags(fopen(path, "rb"), path, 1, NULL) != 0);
  return NULL;
}

// `wait` returns the path of the program that the child runs.
int start(PyObject* wait) {
  pthread_t thread;
  return pthread_create(&thread, NULL, run, wait);
}
