#include "tracker/evidence/objects/tensor_reader.h"

#include "tracker/interface/platform.h"

namespace devtrace::evidence {
namespace {

struct Dtype {
  const char* name;
  int bytes;
};
// By c10::ScalarType, whose numbers are stable across versions. Quantized and sub-byte types have no entry.
constexpr Dtype kDtypes[] = {
    {"uint8", 1},
    {"int8", 1},
    {"int16", 2},
    {"int32", 4},
    {"int64", 8},
    {"float16", 2},
    {"float32", 4},
    {"float64", 8},
    {"complex32", 4},
    {"complex64", 8},
    {"complex128", 16},
    {"bool", 1},
    {},
    {},
    {},
    {"bfloat16", 2},
    {},
    {},
    {},
    {},
    {},
    {},
    {},
    {"float8_e5m2", 1},
    {"float8_e4m3fn", 1},
    {"float8_e5m2fnuz", 1},
    {"float8_e4m3fnuz", 1},
    {"uint16", 2},
    {"uint32", 4},
    {"uint64", 8},
};

template <class Pointer>
void look_up(Pointer& target, const char* library, const char* symbol) {
  if (platform().symbol) target = reinterpret_cast<Pointer>(platform().symbol(library, symbol));
}

// A variable that holds a pointer.
uintptr_t pointed_to(const char* library, const char* symbol) {
  const uintptr_t* variable = nullptr;
  look_up(variable, library, symbol);
  return variable ? *variable : 0;
}

}  // namespace

TensorReader::TensorReader() {
  tensor_class_ = pointed_to("libtorch_python.so", "THPVariableClass");
  parameter_class_ = pointed_to("libtorch_python.so", "ParameterClass");
  const char* table = nullptr;
  look_up(table, "libc10.so", "_ZTVN3c1010TensorImplE");
  if (table) implementation_ = reinterpret_cast<uintptr_t>(table) + 2 * sizeof(void*);
  look_up(get_data_, "libtorch_cpu.so", "aoti_torch_get_data_ptr");
  look_up(get_sizes_, "libtorch_cpu.so", "aoti_torch_get_sizes");
  look_up(get_dim_, "libtorch_cpu.so", "aoti_torch_get_dim");
  look_up(get_numel_, "libtorch_cpu.so", "aoti_torch_get_numel");
  look_up(get_dtype_, "libtorch_cpu.so", "aoti_torch_get_dtype");
}

bool TensorReader::usable() const {
  return tensor_class_ && reads_handles();
}

bool TensorReader::reads_handles() const {
  return implementation_ && get_data_ && get_sizes_ && get_dim_ && get_numel_ && get_dtype_;
}

std::optional<TensorMetadata> TensorReader::read_handle(const void* handle) const {
  TensorMetadata read;
  void* data = nullptr;
  int64_t* sizes = nullptr;
  int64_t dim = 0, elements = 0;
  int32_t dtype = -1;
  if (get_numel_(handle, &elements) || elements == 0 || get_dim_(handle, &dim) || get_sizes_(handle, &sizes) ||
      get_dtype_(handle, &dtype) || get_data_(handle, &data) || !data)
    return std::nullopt;
  read.address = reinterpret_cast<uintptr_t>(data);
  read.shape.assign(sizes, sizes + dim);
  const bool known = dtype >= 0 && static_cast<size_t>(dtype) < std::size(kDtypes) && kDtypes[dtype].name;
  if (known) read.dtype = kDtypes[dtype].name;
  read.bytes = elements * (known ? kDtypes[dtype].bytes : 1);
  return read;
}

// Behind the object's head stands an at::Tensor, in older versions with a flag before it: the word whose pointer leads
// to a TensorImpl.
std::optional<TensorMetadata> TensorReader::read(const python::Objects& objects, uintptr_t object) const {
  const uintptr_t type = objects.type_of(object);
  if (type == 0 || (type != tensor_class_ && type != parameter_class_)) return std::nullopt;
  for (const uintptr_t place : {object + 16 + objects.header(), object + 24 + objects.header()}) {
    const uintptr_t tensor = objects.pointer(place);
    if (tensor == 0 || objects.pointer(tensor) != implementation_) continue;
    auto read = read_handle(reinterpret_cast<Handle>(place));
    if (read) read->is_parameter = type == parameter_class_;
    return read;
  }
  return std::nullopt;
}

}  // namespace devtrace::evidence
