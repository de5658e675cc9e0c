#include "tracker/evidence/objects/accelerate_hooks.h"

#include "tracker/evidence/objects/torch_objects.h"
#include "tracker/python/gil/dict_entries.h"
#include "tracker/python/gil/elements.h"

namespace devtrace::evidence {

using python::Api;
using python::Ref;

std::vector<std::string> skipped_by_hook(const Api& api, PyObject* module) {
  std::vector<std::string> keys;
  const Ref dict = python::instance_dict(api, module);
  const Ref hook = python::entry(api, dict.get(), "_hf_hook");
  const Ref state = hook ? python::instance_dict(api, hook.get()) : Ref();
  const Ref skipped = python::entry(api, state.get(), "skip_keys");
  if (!skipped) return keys;
  const python::Shape shape = python::shape_of(api, skipped.get());
  if (shape == python::Shape::unicode) keys.push_back(python::text(api, skipped.get()));
  if (shape == python::Shape::list)
    for (python::Elements each(api, skipped.get()); each.next();) keys.push_back(python::text(api, each.value()));
  return keys;
}

std::string hook_of(const Api& api, PyObject* module) {
  const Ref dict = python::instance_dict(api, module);
  const Ref hook = python::entry(api, dict.get(), "_hf_hook");
  if (!hook) return {};
  std::string text = class_of(api, hook.get());
  const Ref state = python::instance_dict(api, hook.get());
  if (const Ref device = python::entry(api, state.get(), "execution_device")) {
    const std::string kind = class_of(api, device.get());
    if (kind == "int" || kind == "str" || kind == "device")
      text += "(execution_device=" + python::as_text(api, device.get()) + ")";
  }
  return text;
}

Ref device_map_of(const Api& api, PyObject* model) {
  const Ref attributes = python::instance_dict(api, model);
  Ref map = python::entry(api, attributes.get(), "hf_device_map");
  return map && python::shape_of(api, map.get()) == python::Shape::dict ? std::move(map) : Ref();
}

std::string entry_of_device_map(const Api& api, PyObject* model, const std::string& path) {
  const Ref map = device_map_of(api, model);
  if (!map) return {};
  std::string longest, device;
  bool found = false;
  for (python::DictEntries each(api, map.get()); each.next();) {
    if (python::shape_of(api, each.key()) != python::Shape::unicode) continue;
    const std::string part = python::text(api, each.key());
    const bool holds = part.empty() || path == part || path.starts_with(part + ".");
    if (!holds || (found && part.size() <= longest.size())) continue;
    const std::string kind = class_of(api, each.value());
    if (kind != "int" && kind != "str" && kind != "device") continue;
    found = true;
    longest = part;
    device = kind == "int" ? "cuda:" + python::as_text(api, each.value()) : python::as_text(api, each.value());
  }
  return found ? (longest.empty() ? "the whole model" : longest) + ": " + device : "not in the map";
}

}  // namespace devtrace::evidence
