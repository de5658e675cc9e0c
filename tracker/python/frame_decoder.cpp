#include "tracker/python/frame_decoder.h"

#include "tracker/python/line_table.h"
#include "tracker/python/objects/string_decoder.h"

namespace devtrace::python {
namespace {

template <class T>
T field(uintptr_t object, uint16_t offset) {
  T value;
  PlainMemory().read(object + offset, value);
  return value;
}

}  // namespace

size_t file_of(const Layout& layout, const RawFrame& frame, char* out, size_t capacity) {
  return read_str(layout, field<const void*>(frame.code, layout.code_filename), out, capacity);
}

size_t function_of(const Layout& layout, const RawFrame& frame, char* out, size_t capacity) {
  return read_str(layout, field<const void*>(frame.code, layout.code_name), out, capacity);
}

int line_of(const Layout& layout, const RawFrame& frame) {
  const auto table = field<uintptr_t>(frame.code, layout.code_line_table);
  const auto size = field<int64_t>(table, kVarSize + layout.extra_header);
  return line_at(layout.lines, reinterpret_cast<const uint8_t*>(table + kBytesPayload + layout.extra_header),
                 size < 0 ? 0 : static_cast<size_t>(size), field<int32_t>(frame.code, layout.code_first_line),
                 frame.offset);
}

}  // namespace devtrace::python
