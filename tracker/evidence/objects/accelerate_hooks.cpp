#include "tracker/evidence/objects/accelerate_hooks.h"

#include "tracker/evidence/objects/torch_objects.h"

namespace devtrace::evidence {

using python::Api;
using python::Ref;

std::vector<std::string> skipped_by_hook(const Api& api, PyObject* module) {
  std::vector<std::string> keys;
  const Ref dict = python::instance_dict(api, module);
  PyObject* hook = dict ? python::entry(api, dict.get(), "_hf_hook") : nullptr;
  const Ref state = hook ? python::instance_dict(api, hook) : Ref();
  PyObject* skipped = state ? python::entry(api, state.get(), "skip_keys") : nullptr;
  if (!skipped) return keys;
  const python::Shape shape = python::shape_of(api, skipped);
  if (shape == python::Shape::unicode) keys.push_back(python::text(api, skipped));
  if (shape == python::Shape::list)
    for (ssize_t i = 0, n = api.PyList_Size(skipped); i < n; ++i)
      keys.push_back(python::text(api, api.PyList_GetItem(skipped, i)));
  return keys;
}

std::string hook_of(const Api& api, PyObject* module) {
  const Ref dict = python::instance_dict(api, module);
  PyObject* hook = dict ? python::entry(api, dict.get(), "_hf_hook") : nullptr;
  if (!hook) return {};
  std::string text = class_of(api, hook);
  const Ref state = python::instance_dict(api, hook);
  PyObject* device = state ? python::entry(api, state.get(), "execution_device") : nullptr;
  if (device) {
    const std::string kind = class_of(api, device);
    if (kind == "int" || kind == "str" || kind == "device")
      text += "(execution_device=" + python::as_text(api, device) + ")";
  }
  return text;
}

PyObject* device_map_of(const Api& api, PyObject* model) {
  const Ref attributes = python::instance_dict(api, model);
  PyObject* const map = attributes ? python::entry(api, attributes.get(), "hf_device_map") : nullptr;
  return map && python::shape_of(api, map) == python::Shape::dict ? map : nullptr;
}

std::string entry_of_device_map(const Api& api, PyObject* model, const std::string& path) {
  PyObject* const map = device_map_of(api, model);
  if (!map) return {};
  std::string longest, device;
  bool found = false;
  PyObject *key, *value;
  ssize_t position = 0;
  while (api.PyDict_Next(map, &position, &key, &value)) {
    if (python::shape_of(api, key) != python::Shape::unicode) continue;
    const std::string part = python::text(api, key);
    const bool holds = part.empty() || path == part || path.starts_with(part + ".");
    if (!holds || (found && part.size() <= longest.size())) continue;
    const std::string kind = class_of(api, value);
    if (kind != "int" && kind != "str" && kind != "device") continue;
    found = true;
    longest = part;
    device = kind == "int" ? "cuda:" + python::as_text(api, value) : python::as_text(api, value);
  }
  return found ? (longest.empty() ? "the whole model" : longest) + ": " + device : "not in the map";
}

}  // namespace devtrace::evidence
