// What stands in front of NVIDIA's compilers finds these, and tells the driver what they made.
#pragma once

#include <cstddef>
#include <string_view>

namespace devtrace::simulate::jit {

// The function of this name in the library, whose file is `library` and its version's number (13, else 12); null where
// none of them is loaded.
void* find(std::string_view library, const char* symbol);

template <class Function>
Function* original(std::string_view library, const char* symbol) {
  return reinterpret_cast<Function*>(find(library, symbol));
}

// The image was made of this PTX: libcuda.so.1 computes its kernels by that. Several modules each end with a zero.
void note_ptx(const void* image, size_t bytes, std::string_view ptx);

}  // namespace devtrace::simulate::jit
