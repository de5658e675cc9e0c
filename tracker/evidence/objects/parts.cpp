#include "tracker/evidence/objects/parts.h"

namespace devtrace::evidence {

python::Ref elements_of_deque(const python::Api& api, PyObject* object) {
  const python::Ref type = python::type_of(api, object);
  if (python::type_name(api, type.get()) != "deque") return {};
  const python::Ref collections = python::imported_module(api, "collections");
  const python::Ref deque = collections ? python::attribute(api, collections.get(), "deque") : python::Ref();
  if (deque.get() != type.get()) return {};
  const python::Ref builtins = python::imported_module(api, "builtins");
  const python::Ref list = builtins ? python::attribute(api, builtins.get(), "list") : python::Ref();
  return list ? python::call_with(api, list.get(), object) : python::Ref();
}

std::string Part::name(const python::Api& api) const {
  if (!key) return std::to_string(index);
  const python::Shape shape = python::shape_of(api, key);
  if (shape == python::Shape::unicode) return python::text(api, key);
  const long long number = shape == python::Shape::other ? python::integer(api, key, -1) : -1;
  return number >= 0 ? std::to_string(number) : std::string();
}

std::string Part::step(const python::Api& api) const {
  const std::string name = this->name(api);
  if (attribute) return '.' + name;
  const bool is_text = key && python::shape_of(api, key) == python::Shape::unicode;
  if (is_text) return "[\"" + name + "\"]";
  return '[' + (name.empty() ? "…" : name) + ']';
}

}  // namespace devtrace::evidence
