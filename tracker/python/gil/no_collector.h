// While it lives, the garbage collector does not run: it would run finalizers of the user's.
#pragma once

#include "tracker/python/python_api.h"

namespace devtrace::python {

// Under a Gil, which has stopped it where the C API can do so (3.10). Before that only its module can.
class NoCollector {
 public:
  explicit NoCollector(const Api& api) : api_(api) {
    if (api.PyGC_Disable) return;
    gc_ = imported_module(api, "gc");
    const Ref on = call_method(api, gc_.get(), "isenabled");
    on_ = on && is_true(api, on.get());
    if (on_) call_method(api, gc_.get(), "disable");
  }
  ~NoCollector() {
    if (on_) call_method(api_, gc_.get(), "enable");
  }
  NoCollector(const NoCollector&) = delete;
  NoCollector& operator=(const NoCollector&) = delete;

 private:
  const Api& api_;
  Ref gc_;
  bool on_ = false;
};

}  // namespace devtrace::python
