#include "tracker/evidence/operation.h"

namespace devtrace::evidence {
namespace {

using python::Ref;

constexpr std::string_view kOps = "at::_ops::";

bool has_overload(const python::Api& api, PyObject* schemas, const std::string& overload) {
  if (!schemas || python::shape_of(api, schemas) != python::Shape::list) return false;
  for (ssize_t i = 0, n = api.PyList_Size(schemas); i < n; ++i)
    if (python::text(api, python::attribute(api, api.PyList_GetItem(schemas, i), "overload_name").get()) == overload)
      return true;
  return false;
}

}  // namespace

std::string operation_of(std::string_view function) {
  if (!function.starts_with(kOps)) return {};
  function.remove_prefix(kOps.size());
  const size_t end = function.find("::");
  if (end == std::string_view::npos) return {};
  const std::string_view rest = function.substr(end + 2);
  return rest.starts_with("call") || rest.starts_with("redispatch") ? std::string(function.substr(0, end))
                                                                    : std::string();
}

std::pair<std::string, std::string> schema_name(const python::Api& api, const std::string& structure) {
  const Ref c = structure.empty() ? Ref() : python::imported_module(api, "torch._C");
  const Ref schemas_for = python::attribute(api, c.get(), "_jit_get_schemas_for_operator");
  if (!schemas_for) return {structure, ""};
  for (size_t end = structure.size(); end != std::string::npos && end != 0; end = structure.rfind('_', end - 1)) {
    const std::string name = structure.substr(0, end);
    const std::string overload = end < structure.size() ? structure.substr(end + 1) : "";
    const Ref argument(api, api.PyUnicode_FromString(("aten::" + name).c_str()));
    if (!argument) break;
    const Ref schemas = python::call_with(api, schemas_for.get(), argument.get());
    if (has_overload(api, schemas.get(), overload)) return {name, overload};
  }
  return {structure, ""};
}

std::string jitted_kernel(const python::Api& api, const std::vector<Frame>& frames) {
  if (frames.empty() || !frames[0].file.ends_with("/torch/cuda/jiterator.py")) return {};
  const Ref locals = frames[0].locals(api);
  const Ref self = locals ? Ref(api, api.PyMapping_GetItemString(locals.get(), "self")) : Ref();
  const Ref state = self ? python::instance_dict(api, self.get()) : Ref();
  const std::string name = python::text(api, python::entry(api, state.get(), "kernel_name").get());
  return name.empty() ? name : "jiterator::" + name;
}

}  // namespace devtrace::evidence
