#include "tracker/python/kept_references.h"

namespace devtrace::python {
namespace {

thread_local constinit KeptReferences* current = nullptr;

}  // namespace

void KeptReferences::use(const Api& api) {
  if (!api.free_threaded) return;
  api_ = &api;
  current = this;
}

KeptReferences::~KeptReferences() {
  if (!api_) return;
  current = nullptr;
  for (PyObject* const object : references_) api_->Py_DecRef(object);
}

void let_go(const Api& api, PyObject* object) noexcept {
  if (current) {
    try {
      return current->add(object);
    } catch (...) {  // out of memory
    }
  }
  api.Py_DecRef(object);
}

}  // namespace devtrace::python
