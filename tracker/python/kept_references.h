// References that are given up only when nothing of ours is on the stack any more.
#pragma once

#include <vector>

#include "tracker/python/python_api.h"

namespace devtrace::python {

// What a thread reads of a free-threaded Python other threads may let go of meanwhile, and then the last reference is
// ours: an object's `__del__`, which is the program's code, would run in the middle of our own, under our guards.
// While one of these lives, its thread's references are kept from the first use() on. Its end lets go of them: the
// thread has to hold the GIL then, as any of Python's own that runs the collector. One at a time in a thread.
class KeptReferences {
 public:
  KeptReferences() = default;
  ~KeptReferences();
  KeptReferences(const KeptReferences&) = delete;
  KeptReferences& operator=(const KeptReferences&) = delete;

  // Nothing is kept where there is a GIL: whoever holds it is alone.
  void use(const Api& api);
  void leak() { references_.clear(); }
  void add(PyObject* object) { references_.push_back(object); }  // std::bad_alloc

 private:
  const Api* api_ = nullptr;
  std::vector<PyObject*> references_;
};

}  // namespace devtrace::python
