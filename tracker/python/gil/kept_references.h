// References that are given up only when nothing of ours is on the stack any more.
#pragma once

#include <vector>

#include "tracker/python/python_api.h"

namespace devtrace::python {

// What a thread reads of a free-threaded Python other threads may let go of meanwhile, and then the last reference is
// ours. An object's `__del__`, which is the program's code, would run in the middle of our own, under our guards.
// While one of these lives, its thread's references are kept from the first use() on. What was held once stays valid
// for as long, as if the other threads stood still. Its end lets go of them: the thread has to hold the GIL then, as
// any of Python's own that runs the collector. errno stays. Of several in a thread the first that is used keeps all.
class KeptReferences {
 public:
  KeptReferences() = default;
  ~KeptReferences() noexcept(false);  // Python 3.13 ends a thread by unwinding its stack
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
