#include "tracker/evidence/source/compiled_frames.h"

#include "tracker/evidence/frames.h"
#include "tracker/python/gil/dict_entries.h"

namespace devtrace::evidence {
namespace {

using python::Api;
using python::Ref;

constexpr int kDeepestInlined = 64;  // functions that are inlined into one another

// An attribute that the instance itself has; empty for None too.
Ref own(const Api& api, PyObject* object, const char* name) {
  const Ref dict = object ? python::instance_dict(api, object) : Ref();
  Ref value = python::entry(api, dict.get(), name);
  return value.get() != api._Py_NoneStruct ? std::move(value) : Ref();
}

// The variables of the function that is compiled, in which the others are inlined: real ones.
Ref variables_of_outermost(const Api& api, PyObject* interpreter) {
  Ref outermost = Ref::borrowed(api, interpreter);
  for (int depth = 0; depth < kDeepestInlined; ++depth) {
    Ref parent = own(api, outermost.get(), "parent");
    if (!parent) break;
    outermost = std::move(parent);
  }
  return own(api, outermost.get(), "f_locals");
}

// What a variable was in the program: an argument of the compiled function, or an attribute of one.
Ref real_value(const Api& api, PyObject* source, PyObject* variables, int depth = 0) {
  if (!source || !variables || depth > 8) return {};
  if (const Ref name = own(api, source, "local_name"))
    return python::entry(api, variables, python::text(api, name.get()));
  const Ref member = own(api, source, "member"), base = own(api, source, "base");
  if (!member || !base) return {};
  const Ref object = real_value(api, base.get(), variables, depth + 1);
  return own(api, object.get(), python::text(api, member.get()).c_str());
}

// The value that stands for one of Dynamo's variables: the program's, else the fake tensor that it computes with.
Ref value_of(const Api& api, PyObject* variable, PyObject* variables) {
  Ref tracker = Ref::borrowed(api, variable);
  if (const Ref cache = own(api, variable, "_cache")) {  // one that nobody has looked at yet
    if (Ref value = own(api, cache.get(), "value")) return value;
    if (Ref known = own(api, cache.get(), "vt")) tracker = std::move(known);
  }
  if (Ref value = real_value(api, own(api, tracker.get(), "source").get(), variables)) return value;
  if (Ref module = own(api, tracker.get(), "value")) return module;
  const Ref node = own(api, own(api, tracker.get(), "proxy").get(), "node");
  const Ref meta = node ? python::attribute(api, node.get(), "meta") : Ref();
  if (!meta || python::shape_of(api, meta.get()) != python::Shape::dict) return {};
  return python::entry(api, meta.get(), "example_value");
}

Region region_of(const Api& api, PyObject* interpreter) {
  const Ref instruction = own(api, interpreter, "current_instruction");
  const Ref positions = python::attribute(api, instruction.get(), "positions");  // a slot
  const Ref line = own(api, interpreter, "lineno");
  Region region{static_cast<int>(python::integer(api, line.get(), 0)), 0, -1, -1};
  if (!positions || python::shape_of(api, positions.get()) != python::Shape::tuple ||
      api.PyTuple_Size(positions.get()) != 4)
    return region;
  int numbers[4];
  for (int i = 0; i < 4; ++i) {
    PyObject* number = api.PyTuple_GetItem(positions.get(), i);
    numbers[i] = number == api._Py_NoneStruct ? -1 : static_cast<int>(python::integer(api, number, -1));
  }
  return numbers[0] < 1 ? region : Region{numbers[0], numbers[1], numbers[2], numbers[3]};
}

}  // namespace

std::optional<CompiledFrame> compiled_by(const Api& api, const Frame& frame) {
  if (!frame.function.ends_with(".run") && frame.function != "run") return std::nullopt;
  if (!frame.file.ends_with("/torch/_dynamo/symbolic_convert.py")) return std::nullopt;
  const Ref names = frame.locals(api);
  const Ref interpreter = names ? Ref(api, api.PyMapping_GetItemString(names.get(), "self")) : Ref();
  CompiledFrame out;
  out.code = own(api, interpreter.get(), "f_code");
  out.globals = own(api, interpreter.get(), "f_globals");
  const Ref symbolic = own(api, interpreter.get(), "symbolic_locals");
  if (!out.code || !symbolic || python::shape_of(api, symbolic.get()) != python::Shape::dict) return std::nullopt;
  out.locals = Ref(api, api.PyDict_New());
  out.region = region_of(api, interpreter.get());
  if (!out.locals || out.region.line < 1) return std::nullopt;
  const Ref variables = variables_of_outermost(api, interpreter.get());
  for (python::DictEntries each(api, symbolic.get()); each.next();) {
    const std::string name = python::text(api, each.key());
    if (const Ref value = name.empty() ? Ref() : value_of(api, each.value(), variables.get()))
      api.PyDict_SetItemString(out.locals.get(), name.c_str(), value.get());
  }
  return out;
}

}  // namespace devtrace::evidence
