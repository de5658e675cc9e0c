// A Python str read as memory, without the C API.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tracker/python/layout.h"

namespace devtrace::python {

// Writes `characters` of `width` bytes each (1: Latin-1, 2: UCS-2, 4: UCS-4) to `out` as UTF-8, at most `capacity`
// bytes and never half a character. A lone surrogate, which is how Python keeps bytes of a file name that are not
// UTF-8, becomes the byte it stands for (U+DC80 to U+DCFF) or U+FFFD. Returns the bytes written.
size_t to_utf8(const void* characters, size_t count, unsigned width, char* out, size_t capacity);

// The same for a whole str object. `text` may be any kind of str, also a subclass's; 0 for nullptr.
size_t read_str(const Layout& layout, const void* text, char* out, size_t capacity);

}  // namespace devtrace::python
