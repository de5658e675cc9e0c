// Bytes at hand that may be cut short, damaged or hostile: nothing outside of them is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace devtrace::binary {

struct View {
  const uint8_t* data = nullptr;
  size_t size = 0;

  bool holds(size_t at, size_t bytes) const { return at <= size && bytes <= size - at; }

  // Of this processor's byte order; need not be aligned. Calls no function that another library may stand before.
  template <class T>
  bool read(size_t at, T& out) const {
    if (!holds(at, sizeof out)) return false;
    __builtin_memcpy(&out, place(at), sizeof out);
    return true;
  }

  // Whether the text stands there, with its end. The barrier keeps the compiler from making a call of the loop.
  bool same(size_t at, const char* text) const {
    for (char here; read(at, here); ++at, ++text) {
      __asm__ volatile("");
      if (here != *text) return false;
      if (here == '\0') return true;
    }
    return false;
  }

  // Empty when not all of it is there.
  View part(size_t at, size_t bytes) const { return holds(at, bytes) ? View{place(at), bytes} : View{}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data), size}; }

  // A table of names without a last one that does not end; and the name at a place of it, "" outside.
  View names() const { return {data, text().rfind('\0') + 1}; }
  const char* name(size_t at) const { return at < size ? reinterpret_cast<const char*>(place(at)) : ""; }

 private:
  // All of memory begins at null.
  const uint8_t* place(size_t at) const {
    return reinterpret_cast<const uint8_t*>(reinterpret_cast<uintptr_t>(data) + at);
  }
};

}  // namespace devtrace::binary
