// Tensors read out of Python objects without the GIL: at a launch, where it must not be waited for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tracker/python/objects/objects.h"

namespace devtrace::evidence {

struct TensorMetadata {
  std::string dtype;  // "float32"; empty for one that PyTorch has added since
  std::vector<int64_t> shape;
  int64_t bytes = 0;      // elements times their size
  uintptr_t address = 0;  // of its first element
  bool is_parameter = false;
  const char* array_of = "";  // whose it is, when it is no tensor: cupy, numba
  bool pooled = false;        // in memory that a pool of that library's gives out again and again
  bool address_only = false;  // an object that is nothing but an address: the rest is not known
};

class TensorReader {
 public:
  TensorReader();

  // Is PyTorch here, and of a version (2.2 on) that tells a tensor's metadata to C callers?
  bool usable() const;
  // The tensor that a Python object of class Tensor or Parameter is, if it has memory of its own. Other classes
  // (DTensor, FakeTensor) are left alone: theirs is elsewhere.
  std::optional<TensorMetadata> read(const python::Objects& objects, uintptr_t object) const;

  // The same without Python: of an at::Tensor whose TensorImpl begins with `implementation()`.
  bool reads_handles() const;
  uintptr_t implementation() const { return implementation_; }
  std::optional<TensorMetadata> read_handle(const void* handle) const;

 private:
  using Handle = const void*;  // at::Tensor*
  template <class Value>
  using Getter = int32_t (*)(Handle, Value*);

  uintptr_t tensor_class_ = 0;
  uintptr_t parameter_class_ = 0;
  uintptr_t implementation_ = 0;  // what an ordinary TensorImpl starts with
  Getter<void*> get_data_ = nullptr;
  Getter<int64_t*> get_sizes_ = nullptr;
  Getter<int64_t> get_dim_ = nullptr;
  Getter<int64_t> get_numel_ = nullptr;
  Getter<int32_t> get_dtype_ = nullptr;
};

}  // namespace devtrace::evidence
