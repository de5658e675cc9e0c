#include "tracker/evidence/objects/parts.h"

namespace devtrace::evidence {

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
