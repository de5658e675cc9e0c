#include "tracker/evidence/objects/object_walk.h"

#include <algorithm>

#include "tracker/evidence/objects/parts.h"

namespace devtrace::evidence {
namespace {

using python::Api;
using python::Ref;
using python::Shape;

constexpr ssize_t kMostWalked = 256;  // of one list or tuple
constexpr int kDeepestModule = 64;

// A mapping whose items live in an attribute `data`: collections.UserDict, and transformers' BatchEncoding with it.
Ref items_behind(const Api& api, PyObject* object) {
  const Ref dict = python::instance_dict(api, object);
  Ref data = python::entry(api, dict.get(), "data");
  if (!data || python::shape_of(api, data.get()) != Shape::dict) return {};
  const Ref type = python::type_of(api, object);
  return python::attribute(api, type.get(), "__getitem__") ? std::move(data) : Ref();
}

// A field behind a built-in descriptor: __slots__, named tuples. A property would run the user's code and is left
// alone.
Ref slot(const Api& api, PyObject* object, const std::string& name) {
  const Ref descriptor = python::attribute(api, python::type_of(api, object).get(), name.c_str());
  if (!descriptor) return {};
  const std::string kind = python::type_name(api, python::type_of(api, descriptor.get()).get());
  if (kind != "member_descriptor" && kind != "_tuplegetter") return {};
  return python::call_with(api, python::attribute(api, descriptor.get(), "__get__").get(), object);
}

// What the class itself has, of which the instance has none of its own: a tensor, a module, or a container of some.
// With anything else Python code may have its say.
Ref of_the_class(const Api& api, const Torch& torch, PyObject* object, const std::string& name) {
  Ref value = python::attribute(api, python::type_of(api, object).get(), name.c_str());
  if (!value) return {};
  const Shape shape = python::shape_of(api, value.get());
  const bool container = shape == Shape::list || shape == Shape::tuple || shape == Shape::dict;
  return container || torch.is_tensor(value.get()) || torch.is_module(value.get()) ? std::move(value) : Ref();
}

// The attribute that a property gives as it is, `return self._device`: its code loads that and nothing else. Empty for
// any other property, whose code would have to run.
std::string attribute_behind(const Api& api, PyObject* object, const std::string& name) {
  const Ref descriptor = python::attribute(api, python::type_of(api, object).get(), name.c_str());
  if (!descriptor || python::type_name(api, python::type_of(api, descriptor.get()).get()) != "property") return {};
  const Ref getter = python::attribute(api, descriptor.get(), "fget");
  const Ref code = getter ? python::attribute(api, getter.get(), "__code__") : Ref();
  const Ref names = code ? python::attribute(api, code.get(), "co_names") : Ref();
  const Ref bytes = code ? python::attribute(api, code.get(), "co_code") : Ref();
  const Ref holder = python::imported_module(api, "opcode");
  const Ref opcodes = holder ? python::attribute(api, holder.get(), "opname") : Ref();
  if (!names || !bytes || !opcodes || api.PyTuple_Size(names.get()) != 1) return {};
  constexpr ssize_t kMostCode = 80;
  const ssize_t size = api.PySequence_Size(bytes.get());
  if (size > kMostCode) return {};
  for (ssize_t at = 0; at < size; at += 2) {
    const long long opcode = python::integer(api, Ref(api, api.PySequence_GetItem(bytes.get(), at)).get(), 0);
    const std::string word = python::text(api, api.PyList_GetItem(opcodes.get(), static_cast<ssize_t>(opcode)));
    if (word != "RESUME" && word != "CACHE" && word != "LOAD_ATTR" && word != "RETURN_VALUE" &&
        !word.starts_with("LOAD_FAST"))
      return {};
  }
  return python::text(api, api.PyTuple_GetItem(names.get(), 0));
}

// `self.__cache`: within a class Python writes such a name into the instance as `_Class__cache`.
Ref private_attribute(const Api& api, PyObject* dict, const std::string& name) {
  if (!name.starts_with("__") || name.ends_with("__")) return {};
  for (python::DictEntries each(api, dict); each.next();) {
    if (python::shape_of(api, each.key()) != Shape::unicode) continue;
    const std::string written = python::text(api, each.key());
    if (written.size() > name.size() + 1 && written.starts_with('_') && written.ends_with(name))
      return Ref::borrowed(api, each.value());
  }
  return {};
}

}  // namespace

bool ObjectWalk::worth_entering(PyObject* object) {
  return entered_.of(object, [&](PyObject* type) {
    if (holds_nothing(api_, type)) return false;
    const std::string name = python::type_name(api_, type);
    return name != "function" && name != "method";
  });
}

// A name is only made for what is shown or entered: most values of a program are neither.
template <class NameOf>
void ObjectWalk::enter(PyObject* value, const char* role, int depth, const NameOf& name_of,
                       const std::function<void(const ReachedObject&)>& visit) {
  if (budget_ == 0) return;
  --budget_;
  if (torch_.is_tensor(value) || torch_.is_module(value))
    visit({value, name_of(), role});
  else if (depth > 0 && worth_entering(value))
    walk(value, name_of(), depth, false, visit);
}

void ObjectWalk::walk(PyObject* object, const std::string& name, int depth, bool attributes,
                      const std::function<void(const ReachedObject&)>& visit) {
  const auto enter_part = [&](const Part& part) {
    enter(
        part.value, part.attribute ? "attribute" : "element", depth - 1, [&] { return name + part.step(api_); }, visit);
  };
  if (torch_.is_tensor(object) || torch_.is_module(object)) {
    visit({object, name, ""});
    return;
  }
  if (!worth_entering(object)) return;
  // Its lengths belong on the CPU, wherever its data lies, and `.to()` of the sequence leaves them there.
  if (const Shape shape = python::shape_of(api_, object);
      shape == Shape::tuple && class_of(api_, object) == "PackedSequence") {
    if (const Ref data = python::element(api_, object, 0))
      enter(
          data.get(), "", depth - 1, [&] { return name; }, visit);
  } else if (const Ref items = shape == Shape::other ? items_behind(api_, object) : Ref()) {
    entries_of(api_, items.get(), false, enter_part);
  } else {
    parts_of(api_, object, kMostWalked, attributes, enter_part);
  }
}

void ObjectWalk::module_attributes(PyObject* module, const std::string& name, int depth,
                                   const std::function<void(const ReachedObject&)>& visit) {
  const Ref dict = python::instance_dict(api_, module);
  entries_of(api_, dict.get(), true, [&](const Part& part) {
    const std::string own = part.name(api_);
    const auto table = [&](const ModuleTable& one) { return own == one.name; };
    if (std::none_of(std::begin(kModuleTables), std::end(kModuleTables), table))
      enter(
          part.value, "attribute", depth, [&] { return name + part.step(api_); }, visit);
  });
}

bool ObjectWalk::module_state(PyObject* module, const std::string& prefix, const VisitState& visit, int depth) {
  if (depth > kDeepestModule) return true;
  const auto take = [&](PyObject* tensor, const std::string& name, const char* role) {
    if (budget_ == 0) return false;
    --budget_;
    return visit({tensor, prefix + name, role}, module);
  };
  if (!evidence::for_each_state_tensor(api_, torch_, module, take)) return false;
  const Ref children = evidence::module_table(api_, module, evidence::kChildTable);
  for (python::DictEntries each(api_, children.get()); each.next();)
    if (torch_.is_module(each.value()) &&
        !module_state(each.value(), prefix + python::text(api_, each.key()) + ".", visit, depth + 1))
      return false;
  return true;
}

std::pair<Ref, std::string> ObjectWalk::step(PyObject* object, const Step& step) {
  if (step.kind == Step::attribute) {
    if (torch_.is_module(object)) {
      for (const evidence::ModuleTable& table : evidence::kModuleTables)
        if (const Ref dict = evidence::module_table(api_, object, table))
          if (Ref value = python::entry(api_, dict.get(), step.name)) return {std::move(value), table.role};
    }
    const Ref dict = python::instance_dict(api_, object);
    Ref value = python::entry(api_, dict.get(), step.name);
    if (dict && !value) value = private_attribute(api_, dict.get(), step.name);
    if (value) return {std::move(value), "attribute"};
    if (Ref field = slot(api_, object, step.name)) return {std::move(field), "attribute"};
    if (const std::string own = attribute_behind(api_, object, step.name); !own.empty() && own != step.name)
      return this->step(object, {Step::attribute, own, 0});
    return {of_the_class(api_, torch_, object, step.name), "attribute"};
  }
  if (step.kind == Step::key) {
    const Ref items =
        python::shape_of(api_, object) == Shape::dict ? Ref::borrowed(api_, object) : items_behind(api_, object);
    if (Ref value = python::entry(api_, items.get(), step.name)) return {std::move(value), "element"};
    return {};
  }
  if (step.kind == Step::variable) return {};  // its value is asked for before
  const Ref list = elements_of_deque(api_, object);
  if (list) object = list.get();
  const Shape shape = python::shape_of(api_, object);
  if (shape != Shape::tuple && shape != Shape::list) return {};
  const ssize_t size = shape == Shape::tuple ? api_.PyTuple_Size(object) : api_.PyList_Size(object);
  const ssize_t at = step.position < 0 ? step.position + size : step.position;
  if (at < 0 || at >= size) return {};
  return {python::element(api_, object, at), "element"};
}

}  // namespace devtrace::evidence
