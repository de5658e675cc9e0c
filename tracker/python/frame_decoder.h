// What a raw frame says: its file, function and line.
#pragma once

#include <cstddef>

#include "tracker/python/frame_walker.h"

namespace devtrace::python {

// UTF-8, cut at `capacity` bytes. Each returns the bytes written.
size_t file_of(const Layout& layout, const RawFrame& frame, char* out, size_t capacity);
size_t function_of(const Layout& layout, const RawFrame& frame, char* out, size_t capacity);

// 1-based; 0 when the instruction has no line.
int line_of(const Layout& layout, const RawFrame& frame);

}  // namespace devtrace::python
