#include "tracker/python/gil/kept_references.h"

#include <cerrno>

namespace devtrace::python {
namespace {

thread_local constinit KeptReferences* current = nullptr;

}  // namespace

void KeptReferences::use(const Api& api) {
  if (!api.free_threaded || current) return;
  api_ = &api;
  current = this;
}

KeptReferences::~KeptReferences() noexcept(false) {
  if (!api_) return;
  current = nullptr;
  const int saved = errno;
  for (PyObject* const object : references_) api_->Py_DecRef(object);
  errno = saved;
}

void let_go(const Api& api, PyObject* object) noexcept {
  if (!current) return api.Py_DecRef(object);
  try {
    current->add(object);
  } catch (...) {  // out of memory: it stays for ever, somebody may still look at it
  }
}

}  // namespace devtrace::python
