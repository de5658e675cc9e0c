#include "tracker/python/live_frames.h"

#include "tracker/python/gil/dict_entries.h"
#include "tracker/python/objects/object_layout.h"

namespace devtrace::python {
namespace {

template <class Value>
Value field(uintptr_t address) {
  Value value;
  std::memcpy(&value, reinterpret_cast<const void*>(address), sizeof value);
  return value;
}

PyObject* object_at(uintptr_t address) {
  return field<PyObject*>(address);
}

void add(const Api& api, PyObject* dict, PyObject* name, PyObject* value) {
  if (const std::string text = python::text(api, name); !text.empty())
    if (api.PyDict_SetItemString(dict, text.c_str(), value) != 0) api.PyErr_Clear();
}

// Of a module's or a class's body: its dict may be of a class of the user's own.
void add_entries(const Api& api, PyObject* from, PyObject* dict) {
  if (!from || shape_of(api, from) != Shape::dict) return;
  for (DictEntries each(api, from); each.next();) add(api, dict, each.key(), each.value());
}

// A function's: slots by the names of its code. One of a comprehension that is not running is empty.
void add_slots(const Api& api, const PythonReader& reader, const ObjectLayout& layout, const RawFrame& frame,
               PyObject* dict) {
  const uintptr_t header = reader.layout.extra_header;
  size_t slot = 0;
  for (const int16_t names : {static_cast<int16_t>(layout.code_names), layout.code_cells, layout.code_frees}) {
    if (names == kAbsent) continue;
    PyObject* const tuple = object_at(frame.code + static_cast<uintptr_t>(names));
    if (!tuple || shape_of(api, tuple) != Shape::tuple) continue;
    for (ssize_t i = 0, n = api.PyTuple_Size(tuple); i < n; ++i, ++slot) {
      const auto value = untagged(field<uintptr_t>(frame.frame + layout.frame_locals + slot * sizeof(PyObject*)));
      if (value == 0) continue;
      auto* const object = reinterpret_cast<PyObject*>(value);
      const bool cell = object_at(value + kObjectType + header) == api.PyCell_Type;
      const Ref contents = cell ? Ref(api, api.PyCell_Get(object)) : Ref();
      if (!cell || contents) add(api, dict, api.PyTuple_GetItem(tuple, i), cell ? contents.get() : object);
    }
  }
}

}  // namespace

FrameSource FrameSource::of_this_thread() {
  const PythonReader* reader = python_reader();
  if (!reader || reader->api.Py_IsFinalizing()) return {};
  return {reader, reinterpret_cast<uintptr_t>(reader->api.PyGILState_GetThisThreadState())};
}

std::vector<FrameSource> other_threads(const Api& api) {
  constexpr size_t kMost = 1024;
  const FrameSource own = FrameSource::of_this_thread();
  std::vector<FrameSource> found;
  if (!own.reader || own.reader->layout.extra_header != 0) return found;
  for (void* thread = api.PyInterpreterState_ThreadHead(api.PyInterpreterState_Get()); thread && found.size() < kMost;
       thread = api.PyThreadState_Next(thread))
    if (const auto state = reinterpret_cast<uintptr_t>(thread); state != own.thread)
      found.push_back({own.reader, state});
  return found;
}

std::vector<RawFrame> live_frames(const FrameSource& source, size_t most) {
  std::vector<RawFrame> frames;
  if (!source.reader || source.thread == 0) return frames;
  walk(source.reader->layout, PlainMemory(), source.reader->code_type, source.thread, [&](const RawFrame& frame) {
    if (frames.size() < most) frames.push_back(frame);
  });
  return frames;
}

Ref variables_of(const Api& api, const PythonReader& reader, const RawFrame& frame) {
  const ObjectLayout* const layout = object_layout_of(reader.layout);
  if (!layout || !api.PyCell_Type) return {};
  Ref dict(api, api.PyDict_New());
  if (!dict) return dict;
  if (!(field<uint32_t>(frame.code + layout->code_flags) & kOptimized))
    add_entries(api, object_at(frame.frame + layout->frame_dict), dict.get());
  add_slots(api, reader, *layout, frame, dict.get());
  return dict;
}

Ref globals_of(const Api& api, const PythonReader& reader, const RawFrame& frame) {
  const ObjectLayout* const layout = object_layout_of(reader.layout);
  PyObject* const dict = layout ? object_at(frame.frame + layout->frame_globals) : nullptr;
  return dict && shape_of(api, dict) == Shape::dict ? Ref::borrowed(api, dict) : Ref();
}

}  // namespace devtrace::python
