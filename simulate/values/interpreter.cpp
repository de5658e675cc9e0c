#include "simulate/values/interpreter.h"

#include <dlfcn.h>

namespace devtrace::simulate::values {

python::Api g_python;

bool find_python() {
  const auto find = [](const char* name) { return dlsym(RTLD_DEFAULT, name); };
  if (!find("Py_IsInitialized")) return false;
  const bool functions = python::find_functions(g_python, find);
  return python::find_data(g_python, find) && functions;
}

PyObject* none() {
  return g_python._Py_NoneStruct;
}

PyObject* type_of(PyObject* value) {
  PyObject* type = g_python.PyObject_Type(value);
  g_python.Py_DecRef(type);  // a type lives on
  return type;
}

PyObject* rest(PyObject* tuple, ssize_t first) {
  const python::Api& p = g_python;
  const ssize_t size = p.PyTuple_Size(tuple);
  PyObject* made = p.PyTuple_New(size - first);
  for (ssize_t i = first; made && i < size; ++i) {
    PyObject* each = p.PyTuple_GetItem(tuple, i);
    p.Py_IncRef(each);
    p.PyTuple_SetItem(made, i - first, each);
  }
  return made;
}

}  // namespace devtrace::simulate::values
