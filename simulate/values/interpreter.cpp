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

Ref new_reference(PyObject* object) {
  g_python.Py_IncRef(object);
  return Ref(object);
}

PyObject* type_of(PyObject* value) {
  return Ref(g_python.PyObject_Type(value)).get();  // a type lives on
}

Ref items_from(PyObject* tuple, ssize_t first) {
  const python::Api& p = g_python;
  const ssize_t size = p.PyTuple_Size(tuple);
  Ref made(p.PyTuple_New(size - first));
  for (ssize_t i = first; made && i < size; ++i)
    p.PyTuple_SetItem(made.get(), i - first, new_reference(p.PyTuple_GetItem(tuple, i)).release());
  return made;
}

}  // namespace devtrace::simulate::values
