#include "simulate/values/import_end.h"

namespace devtrace::simulate::values {

// The lock of a module's import goes when it has ended. importlib knows all of them by weak references.
bool call_at_import_end(const char* module, PyObject* callback) {
  const python::Api& p = g_python;
  PyObject* const importlib = p.PyDict_GetItemString(p.PyImport_GetModuleDict(), "_frozen_importlib");
  PyObject* const locks = importlib ? p.PyDict_GetItemString(p.PyModule_GetDict(importlib), "_module_locks") : nullptr;
  PyObject* const known = locks ? p.PyDict_GetItemString(locks, module) : nullptr;
  const Ref lock = known ? call(known) : nullptr;
  // It has to outlive the lock, so nobody gives it up.
  const bool watched = lock && lock.get() != none() && p.PyWeakref_NewRef(lock.get(), callback);
  p.PyErr_Clear();
  return watched;
}

}  // namespace devtrace::simulate::values
