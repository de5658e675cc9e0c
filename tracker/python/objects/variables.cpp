#include "tracker/python/objects/variables.h"

#include <set>
#include <vector>

namespace devtrace::python {
namespace {

using Visit = std::function<void(const Objects&, const Variable&)>;

class Frames {
 public:
  Frames(const Objects& objects, const ObjectLayout& layout, const PythonReader& reader, const Visit& visit)
      : objects_(objects),
        layout_(layout),
        header_(reader.layout.extra_header),
        cell_type_(reinterpret_cast<uintptr_t>(reader.api.PyCell_Type)),
        visit_(visit) {}

  void variables(size_t index, const RawFrame& frame) const {
    if (!optimized(frame)) {  // a module's body, or a class's
      objects_.for_each_entry(objects_.pointer(frame.frame + layout_.frame_dict),
                              [&](const std::string& name, uintptr_t value) { give(index, name, value, false); });
      return;
    }
    const size_t arguments = argument_count(frame);
    std::set<std::string>
        argument_names;  // one that an inner function uses, too, is in a cell behind the others up to 3.10
    size_t slot = 0;
    for (const int16_t names : {static_cast<int16_t>(layout_.code_names), layout_.code_cells, layout_.code_frees}) {
      if (names == kAbsent) continue;
      const size_t first = slot;
      const uintptr_t tuple = objects_.pointer(frame.code + static_cast<uintptr_t>(names));
      objects_.for_each_item(tuple, [&](size_t i, uintptr_t name) {
        slot = first + i + 1;
        if (hidden(frame, i)) return;
        const std::string text = objects_.text(name);
        if (first + i < arguments) argument_names.insert(text);
        const uintptr_t value =
            contents(untagged(objects_.pointer(frame.frame + layout_.frame_locals + 8 * (first + i))));
        if (value != 0) give(index, text, value, argument_names.contains(text));
      });
    }
  }

  void globals(size_t index, const RawFrame& frame) const {
    if (!optimized(frame)) return;  // has given them already
    objects_.for_each_entry(objects_.pointer(frame.frame + layout_.frame_globals),
                            [&](const std::string& name, uintptr_t value) { give(index, name, value, false, true); });
  }

 private:
  uint32_t number(uintptr_t address) const {
    uint32_t value;
    return objects_.memory().read(address, value) ? value : 0;
  }
  bool optimized(const RawFrame& frame) const { return number(frame.code + layout_.code_flags) & kOptimized; }

  size_t argument_count(const RawFrame& frame) const {
    const uint32_t flags = number(frame.code + layout_.code_flags);
    return number(frame.code + layout_.code_arguments) + number(frame.code + layout_.code_keyword_only) +
           (flags & kVarArguments ? 1 : 0) + (flags & kVarKeywords ? 1 : 0);
  }

  // Variables of comprehensions that 3.12 runs in the function itself.
  bool hidden(const RawFrame& frame, size_t i) const {
    if (layout_.code_kinds == kAbsent) return false;
    const uintptr_t kinds = objects_.pointer(frame.code + static_cast<uintptr_t>(layout_.code_kinds));
    uint8_t kind;
    return kinds == 0 || !objects_.memory().read(kinds + kBytesPayload + header_ + i, kind) || kind & kHiddenVariable;
  }

  uintptr_t contents(uintptr_t value) const {
    return value != 0 && objects_.type_of(value) == cell_type_ ? objects_.pointer(value + kCellContents + header_)
                                                               : value;
  }

  void give(size_t frame, const std::string& name, uintptr_t value, bool argument, bool global = false) const {
    if (!name.empty()) visit_(objects_, {frame, name, argument, global, value});
  }

  const Objects& objects_;
  const ObjectLayout& layout_;
  uintptr_t header_;
  uintptr_t cell_type_;
  const Visit& visit_;
};

}  // namespace

void for_each_variable(size_t most, const std::function<bool(size_t)>& globals_wanted, const Visit& visit) {
  const PythonReader* reader = python_reader();
  if (reader == nullptr || reader->api.Py_IsFinalizing() || reader->api.PyCell_Type == nullptr) return;
  const ObjectLayout* layout = object_layout_of(reader->layout);
  const auto thread = reinterpret_cast<uintptr_t>(reader->api.PyGILState_GetThisThreadState());
  if (layout == nullptr || thread == 0) return;
  std::vector<RawFrame> stack;
  walk(reader->layout, PlainMemory(), reader->code_type, thread, [&](const RawFrame& frame) {
    if (stack.size() < most) stack.push_back(frame);
  });
  const Objects objects(*reader, *layout);
  if (!objects.usable()) return;
  const Frames frames(objects, *layout, *reader, visit);
  for (size_t i = 0; i < stack.size(); ++i) frames.variables(i, stack[i]);
  for (size_t i = 0; i < stack.size(); ++i)
    if (globals_wanted(i)) frames.globals(i, stack[i]);
}

void for_each_variable_of(const Objects& objects, const ObjectLayout& layout, const PythonReader& reader,
                          const RawFrame& frame, size_t index, Scope scope, const Visit& visit) {
  const Frames frames(objects, layout, reader, visit);
  scope == Scope::own ? frames.variables(index, frame) : frames.globals(index, frame);
}

}  // namespace devtrace::python
