// The elements of a list or tuple, also while other threads of a free-threaded Python change the list.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tracker/python/python_api.h"

namespace devtrace::python {

// Under a Gil, of a sequence that somebody holds; none of anything else. An element lives until the next one is asked
// for.
class Elements {
 public:
  Elements(const Api& api, PyObject* sequence, ssize_t most = PTRDIFF_MAX)
      : api_(api), sequence_(sequence), shape_(shape_of(api, sequence)), most_(most) {}

  bool next() {
    if (++index_ >= std::min(size(), most_)) return false;
    if (shape_ == Shape::tuple) {
      value_ = api_.PyTuple_GetItem(sequence_, index_);
    } else if (!api_.free_threaded) {
      value_ = api_.PyList_GetItem(sequence_, index_);
    } else {
      held_ = Ref(api_, api_.PyList_GetItemRef(sequence_, index_));  // empty: the list is shorter by now
      value_ = held_.get();
    }
    return value_ != nullptr;
  }
  ssize_t index() const { return index_; }
  PyObject* value() const { return value_; }

 private:
  ssize_t size() const {
    if (shape_ == Shape::tuple) return api_.PyTuple_Size(sequence_);
    return shape_ == Shape::list ? api_.PyList_Size(sequence_) : 0;
  }

  const Api& api_;
  PyObject* sequence_;
  const Shape shape_;
  const ssize_t most_;
  ssize_t index_ = -1;
  PyObject* value_ = nullptr;
  Ref held_;
};

}  // namespace devtrace::python
