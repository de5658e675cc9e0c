#include "tracker/evidence/source/call_arguments.h"

#include <algorithm>

namespace devtrace::evidence {

using python::Api;
using python::Ref;
using python::Shape;

CallArguments::CallArguments(const Api& api, const std::vector<Frame>& frames, const Scope& scope, size_t called)
    : api_(api), scope_(scope), frame_(called), function_(frames[called].function) {
  constexpr long long kVarArguments = 0x04, kVarKeywords = 0x08;
  PyObject* const code = frames[called].code.get();
  const Ref names = python::attribute(api, code, "co_varnames");
  if (!names || python::shape_of(api, names.get()) != Shape::tuple) return;
  const auto number = [&](const char* name) {
    return python::integer(api, python::attribute(api, code, name).get(), 0);
  };
  const auto name = [&](long long i) {
    return i < api.PyTuple_Size(names.get()) ? python::text(api, api.PyTuple_GetItem(names.get(), i)) : std::string();
  };
  const long long flags = number("co_flags"), count = number("co_argcount");
  for (long long i = 0; i < count; ++i) {
    const std::string one = name(i);
    if (i > 0 || (one != "self" && one != "cls")) positional_.push_back(one);
  }
  long long next = count + number("co_kwonlyargcount");
  if (flags & kVarArguments) all_others_ = name(next++);
  if (flags & kVarKeywords) all_keywords_ = name(next);
}

bool CallArguments::called_as(const std::string& callee) const {
  const std::string own = function_.substr(function_.rfind('.') + 1);
  if (callee.substr(callee.rfind('.') + 1) == own) return true;
  if (function_.starts_with("Module.") && own.ends_with("call_impl")) return true;
  return positional_.empty() && !all_others_.empty() && !all_keywords_.empty();
}

Ref CallArguments::parameter(const std::string& name) const {
  return name.empty() ? Ref() : scope_.follow(Path{name, {}}, frame_).value;
}

std::string CallArguments::parameter_of(const Value& value) const {
  if (!value.keyword.empty()) return value.keyword;
  const bool by_place = !value.place.empty() && value.place[0] != Value::kReceiver;
  const auto number = by_place ? static_cast<size_t>(value.place[0]) : positional_.size();
  return number < positional_.size() ? positional_[number] : std::string();
}

Ref CallArguments::at(const Value& value) const {
  if (value.place.empty() || value.place[0] == Value::kReceiver) return {};
  Ref found;
  if (!value.keyword.empty()) {
    found = parameter(value.keyword);
    const Ref others = parameter(all_keywords_);
    if (Ref given = python::entry(api_, others.get(), value.keyword)) found = std::move(given);
  } else {
    const auto number = static_cast<size_t>(value.place[0]);
    if (number < positional_.size()) {
      found = parameter(positional_[number]);
    } else if (const Ref others = parameter(all_others_);
               others && python::shape_of(api_, others.get()) == Shape::tuple) {
      const auto at = static_cast<ssize_t>(number - positional_.size());
      if (at < api_.PyTuple_Size(others.get())) found = Ref::borrowed(api_, api_.PyTuple_GetItem(others.get(), at));
    }
  }
  for (size_t i = 1; found && i < value.place.size(); ++i) found = python::element(api_, found.get(), value.place[i]);
  return found;
}

}  // namespace devtrace::evidence
