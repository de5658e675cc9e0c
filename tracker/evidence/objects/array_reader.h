// Arrays that are not PyTorch's, read out of Python objects without the GIL: CuPy's, Numba's, and the objects of
// cuda-python, CuPy and ctypes that are nothing but an address.
#pragma once

#include <map>
#include <optional>

#include "tracker/evidence/objects/tensor_reader.h"

namespace devtrace::evidence {

class ArrayReader {
 public:
  // The array that an object is. Of an address alone neither dtype nor shape nor size is known.
  std::optional<TensorMetadata> read(const python::Objects& objects, uintptr_t object);

 private:
  enum class Kind { other, cupy, numba, address };
  Kind kind_of(const python::Objects& objects, uintptr_t type);

  std::map<uintptr_t, Kind> kinds_;  // by type
};

}  // namespace devtrace::evidence
