// Line numbers of Python instructions, from the raw bytes of a code object's line table.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tracker/python/layout.h"

namespace devtrace::python {

// The line of the instruction at byte `offset` of the bytecode (negative: not started yet, which counts as the first
// line). `first_line` is co_firstlineno. 0 when the table says that the instruction has no line, or ends before it.
int line_at(LineTable format, const uint8_t* table, size_t size, int first_line, int64_t offset);

}  // namespace devtrace::python
