// The entries of a dict, also while other threads of a free-threaded Python change it.
#pragma once

#include "tracker/python/python_api.h"

namespace devtrace::python {

// Under a Gil, for a dict that somebody holds; nullptr: no entries. Key and value live until the next one is asked for.
// Without a GIL some entries are taken at a time, with references, while the dict's own lock is held: no other code
// runs under that lock. What is put in or taken out between two such times may be seen or not.
class DictEntries {
 public:
  DictEntries(const Api& api, PyObject* dict) : api_(api), dict_(dict), shared_(dict && api.free_threaded) {}
  ~DictEntries() { release(); }
  DictEntries(const DictEntries&) = delete;
  DictEntries& operator=(const DictEntries&) = delete;

  bool next() {
    if (!shared_) return dict_ && api_.PyDict_Next(dict_, &position_, &key_, &value_);
    if (++at_ >= taken_ && !take()) return false;
    key_ = keys_[at_];
    value_ = values_[at_];
    return true;
  }
  PyObject* key() const { return key_; }
  PyObject* value() const { return value_; }

 private:
  bool take() {
    release();
    PyCriticalSection section{};
    api_.PyCriticalSection_Begin(&section, dict_);
    while (taken_ < kAtOnce && api_.PyDict_Next(dict_, &position_, &keys_[taken_], &values_[taken_])) {
      api_.Py_IncRef(keys_[taken_]);
      api_.Py_IncRef(values_[taken_]);
      ++taken_;
    }
    api_.PyCriticalSection_End(&section);
    return taken_ > 0;
  }
  void release() {
    for (int i = 0; i < taken_; ++i) {
      let_go(api_, keys_[i]);
      let_go(api_, values_[i]);
    }
    at_ = taken_ = 0;
  }

  static constexpr int kAtOnce = 16;
  const Api& api_;
  PyObject* dict_;
  const bool shared_;
  ssize_t position_ = 0;
  PyObject *key_ = nullptr, *value_ = nullptr;
  PyObject *keys_[kAtOnce], *values_[kAtOnce];
  int at_ = 0, taken_ = 0;
};

}  // namespace devtrace::python
