#include "tracker/evidence/objects/class_memory.h"

#include <string>

namespace devtrace::evidence {

bool holds_nothing(const python::Api& api, PyObject* type) {
  constexpr unsigned long kTypeSubclass = 1UL << 31, kNumber = 1UL << 24, kBytes = 1UL << 27, kText = 1UL << 28;
  if (api.PyType_GetFlags(type) & (kTypeSubclass | kNumber | kBytes | kText)) return true;
  if (python::is_module_class(api, type)) return true;
  const std::string name = python::type_name(api, type);
  return name == "builtin_function_or_method" || name == "float" || name == "NoneType";
}

}  // namespace devtrace::evidence
