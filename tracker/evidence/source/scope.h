// Values by the names that the code of a frame has for them.
#pragma once

#include <string>
#include <vector>

#include "tracker/evidence/frames.h"
#include "tracker/evidence/objects/object_walk.h"

namespace devtrace::evidence {

// The frames' variables, copied into dicts when this is made. Under the GIL.
class Scope {
 public:
  Scope(const python::Api& api, const std::vector<Frame>& frames, ObjectWalk& walk);

  struct Found {
    python::Ref value;
    std::string role;  // argument, variable, or that of the last step
  };
  // What a path of a frame leads to; empty where it cannot be followed to its end without running code.
  Found follow(const Path& path, size_t frame = 0) const;

  // Calls visit(name, value) for every local variable; the value is borrowed.
  template <class Visit>
  void for_each_local(size_t frame, const Visit& visit) const {
    const python::Ref items =
        locals_[frame] ? python::Ref(api_, api_.PyMapping_Items(locals_[frame].get())) : python::Ref();
    if (!items) return;
    for (ssize_t i = 0, n = api_.PyList_Size(items.get()); i < n; ++i) {
      PyObject* item = api_.PyList_GetItem(items.get(), i);
      const std::string name = python::text(api_, api_.PyTuple_GetItem(item, 0));
      if (!name.starts_with("__")) visit(name, api_.PyTuple_GetItem(item, 1));
    }
  }

 private:
  python::Ref variable(size_t frame, const std::string& name) const;
  Step concrete(const Step& step, size_t frame) const;

  const python::Api& api_;
  const std::vector<Frame>& frames_;
  ObjectWalk& walk_;
  std::vector<python::Ref> locals_;
};

}  // namespace devtrace::evidence
