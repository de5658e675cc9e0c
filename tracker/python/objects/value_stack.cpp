#include "tracker/python/objects/value_stack.h"

#include <algorithm>
#include <string_view>

#include "tracker/python/gil/dict_entries.h"
#include "tracker/python/objects/bytecode.h"
#include "tracker/python/objects/objects.h"

namespace devtrace::python {
namespace {

// How an instruction's operands lie on the stack, the top one last.
enum class Order {
  as_written,      // left and right; container and subscript; owner
  value_first,     // the value to be stored, before what it is stored in
  call,            // callee and receiver, either of which may be NULL; arguments
  call_keywords,   // the same, and a tuple of names
  function,        // callee, arguments (up to 3.10)
  function_names,  // the same, and a tuple of names
  unpacked,        // callee; a tuple of arguments; a dict, if the argument is odd
};

struct Row {
  std::string_view name;  // of the opcode; with a '_' at its end, of all that begin so
  Order order;
  int count = 0;  // of values, where the argument does not say it
};

constexpr Row kRows[] = {
    {"CALL", Order::call},
    {"CALL_METHOD", Order::call},
    {"PRECALL", Order::call},
    {"CALL_KW", Order::call_keywords},
    {"CALL_FUNCTION", Order::function},
    {"CALL_FUNCTION_KW", Order::function_names},
    {"CALL_FUNCTION_EX", Order::unpacked},
    {"STORE_SUBSCR", Order::value_first, 3},
    {"STORE_ATTR", Order::value_first, 2},
    {"BINARY_SLICE", Order::as_written, 3},
    {"STORE_SLICE", Order::value_first, 4},
    {"COMPARE_OP", Order::as_written, 2},
    {"CONTAINS_OP", Order::as_written, 2},
    {"DELETE_SUBSCR", Order::as_written, 2},
    {"LOAD_ATTR", Order::as_written, 1},
    {"LOAD_METHOD", Order::as_written, 1},
    {"TO_BOOL", Order::as_written, 1},
    {"GET_ITER", Order::as_written, 1},
    {"FOR_ITER", Order::as_written, 1},
    {"FORMAT_VALUE", Order::as_written, 1},
    {"UNPACK_SEQUENCE", Order::as_written, 1},
    {"BINARY_", Order::as_written, 2},
    {"INPLACE_", Order::as_written, 2},
    {"UNARY_", Order::as_written, 1},
    {"POP_JUMP_", Order::as_written, 1},
    {"JUMP_IF_", Order::as_written, 1},
};

const Row* row_of(std::string_view name) {
  const auto is = [&](const Row& row) {
    return row.name == name || (row.name.back() == '_' && name.starts_with(row.name));
  };
  const Row* found = std::find_if(std::begin(kRows), std::end(kRows), is);
  return found == std::end(kRows) ? nullptr : found;
}

class Stack {
 public:
  Stack(const Objects& objects, uintptr_t base, int depth) : objects_(objects), base_(base), depth_(depth) {}

  // The value `below` the top, 0 for the top itself; nullptr for what is no object.
  PyObject* value(int below) {
    if (below < 0 || below >= depth_) {
      wrong_ = true;
      return nullptr;
    }
    const uintptr_t object =
        untagged(objects_.pointer(base_ + sizeof(uintptr_t) * static_cast<uintptr_t>(depth_ - 1 - below)));
    if (object == 0) return nullptr;
    const uintptr_t type = objects_.type_of(object);
    if (!(objects_.flags_of_type(objects_.type_of(type)) & kTypeFlag)) wrong_ = true;
    return reinterpret_cast<PyObject*>(object);
  }
  bool wrong() const { return wrong_; }

 private:
  const Objects& objects_;
  uintptr_t base_;
  int depth_;
  bool wrong_ = false;
};

class Reading {
 public:
  Reading(const Api& api, const Objects& objects, Stack& stack, int minor)
      : api_(api), objects_(objects), stack_(stack), minor_(minor) {}

  std::optional<StackOperands> read(const Row& row, int argument) {
    switch (row.order) {
      case Order::as_written:
        take(row.count, 0);
        break;
      case Order::value_first:
        take(row.count - 1, 0);
        out_.values.push_back(stack_.value(row.count - 1));
        break;
      case Order::call:
        call(argument, 0);
        break;
      case Order::call_keywords:
        call(argument, 1);
        break;
      case Order::function:
      case Order::function_names: {
        const int names = row.order == Order::function_names;
        out_.callee = stack_.value(names + argument);
        take(argument, names);
        break;
      }
      case Order::unpacked:
        unpacked(argument & 1);
        break;
    }
    const bool missing = std::find(out_.values.begin(), out_.values.end(), nullptr) != out_.values.end();
    return missing || stack_.wrong() ? std::nullopt : std::optional(std::move(out_));
  }

 private:
  void take(int count, int above) {
    for (int i = count - 1; i >= 0; --i) out_.values.push_back(stack_.value(above + i));
  }

  void call(int arguments, int above) {
    PyObject* const lower = stack_.value(above + arguments + 1);
    PyObject* const upper = stack_.value(above + arguments);
    if (minor_ >= 13) {
      out_.callee = lower;
      out_.receiver = upper;
    } else {  // NULL and the callee, or the method and its receiver
      out_.callee = lower ? lower : upper;
      out_.receiver = lower ? upper : nullptr;
    }
    take(arguments, above);
  }

  void unpacked(int keywords) {
    PyObject* const arguments = stack_.value(keywords);
    out_.callee = stack_.value(keywords + 1);
    if (!out_.callee && minor_ >= 13) out_.callee = stack_.value(keywords + 2);
    // Of anything else CPython has made a tuple, or a dict, by now, and perhaps freed it.
    const auto is = [&](PyObject* object, std::string_view type) {
      return object && !stack_.wrong() && type_name(api_, type_of(api_, object).get()) == type &&
             is_builtin(api_, type_of(api_, object).get());
    };
    if (!is(arguments, "tuple")) {
      out_.values.push_back(nullptr);
      return;
    }
    objects_.for_each_item(reinterpret_cast<uintptr_t>(arguments),
                           [&](size_t, uintptr_t value) { out_.values.push_back(reinterpret_cast<PyObject*>(value)); });
    PyObject* const named = keywords ? stack_.value(0) : nullptr;
    if (!is(named, "dict")) return;
    for (DictEntries each(api_, named); each.next();) out_.values.push_back(each.value());
  }

  const Api& api_;
  const Objects& objects_;
  Stack& stack_;
  int minor_;
  StackOperands out_;
};

// Behind the variables, as many as the code has names for.
uintptr_t base_of_stack(const Objects& objects, const ObjectLayout& layout, const RawFrame& frame) {
  size_t variables = 0;
  for (const int16_t names : {static_cast<int16_t>(layout.code_names), layout.code_cells, layout.code_frees})
    if (names != kAbsent) variables += objects.length(objects.pointer(frame.code + static_cast<uintptr_t>(names)));
  return frame.frame + layout.frame_locals + sizeof(uintptr_t) * variables;
}

}  // namespace

std::optional<StackOperands> operands_on_stack(const Api& api, const PythonReader& reader, const RawFrame& frame) {
  const ObjectLayout* const layout = object_layout_of(reader.layout);
  if (!layout || frame.offset < 0) return std::nullopt;
  const int minor = reader.layout.minor;
  const auto bytecode = Bytecode::read(api, reinterpret_cast<PyObject*>(frame.code), minor);
  const BytecodeInstruction* instruction = bytecode ? bytecode->at(static_cast<size_t>(frame.offset)) : nullptr;
  if (!instruction) return std::nullopt;
  const Row* row = row_of(bytecode->name(*instruction));
  if (!row) return std::nullopt;
  int depth = instruction->depth;
  // In 3.11 PRECALL is counted as if it took the arguments away, which CALL does.
  if (const BytecodeInstruction* before = bytecode->before(*instruction))
    if (bytecode->name(*instruction) == "CALL" && bytecode->name(*before) == "PRECALL") depth = before->depth;
  const Objects objects(reader, *layout);
  if (!objects.usable()) return std::nullopt;
  Stack stack(objects, base_of_stack(objects, *layout, frame), depth);
  return Reading(api, objects, stack, minor).read(*row, instruction->argument);
}

}  // namespace devtrace::python
