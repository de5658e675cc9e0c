#include "tracker/evidence/objects/array_reader.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <string_view>

namespace devtrace::evidence {
namespace {

using python::Objects;

struct NumpyDtype {
  const char* name;
  int bytes;
};
// By NumPy's NPY_TYPES.
constexpr NumpyDtype kNumpyDtypes[] = {
    {"bool", 1},
    {"int8", 1},
    {"uint8", 1},
    {"int16", 2},
    {"uint16", 2},
    {"int32", 4},
    {"uint32", 4},
    {"int64", 8},
    {"uint64", 8},
    {"int64", 8},
    {"uint64", 8},
    {"float32", 4},
    {"float64", 8},
    {"float128", 16},
    {"complex64", 8},
    {"complex128", 16},
    {"complex256", 32},
    {},
    {},
    {},
    {},
    {},
    {},
    {"float16", 2},
};

// Behind an object's head.
constexpr size_t kFirstField = 16;
constexpr size_t kDtypeNumber = 28;  // in NumPy's dtype: the same in 1 and 2
constexpr size_t kMostBytes = 512;   // of an array object
constexpr size_t kMostDimensions = 64;

std::string type_name(const Objects& objects, uintptr_t type) {
  char text[64] = {};
  const uintptr_t name = objects.name_of_type(type);
  return name && objects.memory().copy(name, text, sizeof text - 1) ? text : "";
}

// Nothing, if it is no dtype of NumPy's; a dtype without a name is one that NumPy does not have by itself.
std::optional<NumpyDtype> dtype_of(const Objects& objects, uintptr_t object) {
  if (!type_name(objects, objects.type_of(object)).starts_with("numpy.dtype")) return std::nullopt;
  int32_t number = -1;
  if (!objects.memory().read(object + kDtypeNumber + objects.header(), number)) return std::nullopt;
  const bool known = number >= 0 && static_cast<size_t>(number) < std::size(kNumpyDtypes) && kNumpyDtypes[number].name;
  return known ? kNumpyDtypes[number] : NumpyDtype{nullptr, 1};
}

void set_dtype(const NumpyDtype& dtype, int64_t elements, TensorMetadata* array) {
  if (dtype.name) array->dtype = dtype.name;
  array->bytes = elements * dtype.bytes;
}

// Behind its address and device stands whose memory it points into.
bool in_a_pool(const Objects& objects, uintptr_t pointer) {
  const uintptr_t memory = objects.pointer(pointer + kFirstField + objects.header() + 3 * sizeof(void*));
  return memory >= 4096 && type_name(objects, objects.type_of(memory)).ends_with("PooledMemory");
}

// cuda-python's CUdeviceptr and CuPy's MemoryPointer have it among their fields, ctypes behind one, and an int is it.
uintptr_t address_in(const Objects& objects, uintptr_t object) {
  const std::string name = type_name(objects, objects.type_of(object));
  if (name.ends_with("CUdeviceptr")) return objects.pointer(object + kFirstField + objects.header());
  if (name.ends_with("MemoryPointer")) return objects.pointer(object + kFirstField + objects.header() + sizeof(void*));
  if (name.ends_with("c_void_p") || name.ends_with("c_ulong") || name.ends_with("c_ulonglong"))
    return objects.pointer(objects.pointer(object + kFirstField + objects.header()));
  return static_cast<uintptr_t>(objects.integer(object).value_or(0));
}

// CuPy's arrays are C++ structures, whose order its versions change: known by what their fields are. `size` stands
// before the shape, a std::vector, and is the product of it.
std::optional<TensorMetadata> read_cupy(const Objects& objects, uintptr_t object) {
  const size_t bytes = std::min<size_t>(objects.size_of_instances(objects.type_of(object)), kMostBytes);
  std::array<uintptr_t, kMostBytes / sizeof(uintptr_t)> words = {};
  const size_t first_field = kFirstField + objects.header();
  if (bytes < first_field || !objects.memory().copy(object, words.data(), bytes)) return std::nullopt;
  const size_t count = bytes / sizeof(uintptr_t);
  TensorMetadata array;
  std::optional<NumpyDtype> dtype;
  bool shaped = false;
  int64_t elements = 1;
  for (size_t i = first_field / sizeof(uintptr_t); i < count; ++i) {
    if (!shaped && i + 2 < count) {
      const uintptr_t begin = words[i], end = words[i + 1], room = words[i + 2];
      const size_t length = end - begin;
      if (end >= begin && room >= end && length % sizeof(int64_t) == 0 && length <= kMostDimensions * sizeof(int64_t) &&
          (begin != 0 || i > 4)) {
        std::vector<int64_t> shape(length / sizeof(int64_t));
        if (shape.empty() || objects.memory().copy(begin, shape.data(), length)) {
          uint64_t product = 1;  // may be any numbers: no overflow
          for (const int64_t extent : shape) product *= static_cast<uint64_t>(extent);
          if (std::find(words.begin() + 2, words.begin() + i, product) != words.begin() + i) {
            array.shape = std::move(shape);
            elements = static_cast<int64_t>(product);
            shaped = true;
            i += 2;
            continue;
          }
        }
      }
    }
    if (!shaped || words[i] < 4096) continue;
    if (!dtype) dtype = dtype_of(objects, words[i]);
    if (!array.address && type_name(objects, objects.type_of(words[i])).ends_with("MemoryPointer")) {
      array.address = address_in(objects, words[i]);
      array.pooled = in_a_pool(objects, words[i]);
    }
  }
  if (!shaped || !dtype || !array.address || elements <= 0) return std::nullopt;
  set_dtype(*dtype, elements, &array);
  return array;
}

// Numba's are Python objects with attributes.
std::optional<TensorMetadata> read_numba(const Objects& objects, uintptr_t object) {
  TensorMetadata array;
  std::optional<NumpyDtype> dtype;
  uint64_t elements = 1;
  bool shaped = false;
  objects.for_each_attribute(object, [&](const std::string& name, uintptr_t value) {
    if (name == "dtype") dtype = dtype_of(objects, value);
    if (name == "shape" && (shaped = objects.flags_of_type(objects.type_of(value)) & python::kTupleFlag))
      objects.for_each_item(value, [&](size_t, uintptr_t extent) {
        array.shape.push_back(objects.integer(extent).value_or(0));
        elements *= static_cast<uint64_t>(array.shape.back());
      });
    if (name == "gpu_data")
      objects.for_each_attribute(value, [&](const std::string& inner, uintptr_t pointer) {
        if (!array.address && (inner == "device_ctypes_pointer" || inner == "device_pointer"))
          array.address = address_in(objects, pointer);
      });
  });
  if (!shaped || !dtype || !array.address || elements == 0) return std::nullopt;
  set_dtype(*dtype, static_cast<int64_t>(elements), &array);
  return array;
}

std::optional<TensorMetadata> of(const char* library, std::optional<TensorMetadata> array) {
  if (array) array->array_of = library;
  return array;
}

}  // namespace

ArrayReader::Kind ArrayReader::kind_of(const Objects& objects, uintptr_t type) {
  const auto [entry, fresh] = kinds_.try_emplace(type, Kind::other);
  if (!fresh) return entry->second;
  const std::string name = type_name(objects, type);
  // A class that Python code defines is called without its module.
  if (name == "ndarray" || (name.starts_with("cupy.") && name.ends_with(".ndarray"))) return entry->second = Kind::cupy;
  for (const char* numbas : {"DeviceNDArray", "MappedNDArray", "ManagedNDArray"})
    if (name == numbas) return entry->second = Kind::numba;
  for (const char* address :
       {"cuda.bindings.driver.CUdeviceptr", "cuda.cuda.CUdeviceptr", "cupy.cuda.memory.MemoryPointer", "c_void_p",
        "c_ulong", "ctypes.c_void_p", "ctypes.c_ulong"})
    if (name == address) return entry->second = Kind::address;
  return entry->second;
}

std::optional<TensorMetadata> ArrayReader::read(const Objects& objects, uintptr_t object) {
  const uintptr_t type = objects.type_of(object);
  if (type == 0) return std::nullopt;
  switch (kind_of(objects, type)) {
    case Kind::cupy:
      return of("cupy", read_cupy(objects, object));
    case Kind::numba:
      return of("numba", read_numba(objects, object));
    case Kind::address: {
      TensorMetadata pointer;
      pointer.address = address_in(objects, object);
      pointer.bytes = 1;
      pointer.address_only = true;
      pointer.array_of = "address";
      pointer.pooled = type_name(objects, type).ends_with("MemoryPointer") && in_a_pool(objects, object);
      return pointer.address ? std::optional(pointer) : std::nullopt;
    }
    case Kind::other:
      break;
  }
  return std::nullopt;
}

}  // namespace devtrace::evidence
