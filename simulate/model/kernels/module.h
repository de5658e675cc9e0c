// Kernels and the images they come from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "binary/device/image.h"
#include "simulate/common/cuda_headers.h"
#include "simulate/kernels/code.h"
#include "simulate/values/uncomputed.h"

namespace devtrace::simulate {

struct Function;

// What a module or a library holds: one loaded image. The driver loads lazily, so does this: see load().
struct Container {
  const void* data = nullptr;  // as the program gave it; not read again after load()
  std::vector<uint8_t> copy;   // when the program's own bytes may go away
  std::string path;            // loaded from a file
  std::mutex mutex;
  bool read = false;
  device::Image contents;
  std::map<std::string, Function*> functions;
  // Of kernels that are computed: computed.h.
  device::PtxText ptx;
  std::once_flag program_once, variables_once;
  std::shared_ptr<const kernels::Program> program;
  std::string not_computed_because;
  // Address of each variable on each device, made at the first question.
  std::map<std::pair<std::string, int>, CUdeviceptr> variables;
};

// A word of a kernel's parameters that its code may use as an address.
struct AddressWord {
  size_t parameter = 0, at = 0;          // which parameter, and where in it
  const device::Array* array = nullptr;  // only some launches use it; null: all
  bool perhaps = false;                  // all that is seen of it going to memory is on a condition
  size_t behind = 0;                     // the number of the next word that is none of the same array's
};

// CUfunction and CUkernel have this as their beginning: the driver takes a CUkernel wherever it takes a CUfunction.
struct Function {
  Container* container = nullptr;
  std::string name;
  const device::KernelFacts* facts = nullptr;  // null: the image did not tell
  CUmodule module = nullptr;
  CUlibrary library = nullptr;
  int max_dynamic_shared = 0;  // 0: the default limit
  int cache = 0;
  uint64_t launches = 0;
  std::once_flag addresses_once;
  std::vector<AddressWord> addresses;  // see fault.h: what it may use as an address
  std::once_flag written_once;
  std::vector<size_t> written;     // see written.h: where in its parameters the addresses stand that it writes to
  std::vector<size_t> leading_on;  // ... and those behind which it may find others that it writes to
  // Of what it does not write, and of what it perhaps would have.
  values::Source source = 0, perhaps_source = 0;
};

}  // namespace devtrace::simulate

struct CUmod_st : devtrace::simulate::Container {};
struct CUlib_st : devtrace::simulate::Container {};
struct CUfunc_st : devtrace::simulate::Function {};
struct CUkern_st : devtrace::simulate::Function {};

namespace devtrace::simulate {

// CUDA_ERROR_INVALID_IMAGE, CUDA_ERROR_NO_BINARY_FOR_GPU: why the driver would not take the image, of at most so many
// bytes.
CUresult read_image(const void* data, size_t most, device::Image* contents);
// The same of the container's image, once.
CUresult load(Container& container);
// The function called `name`, the same pointer at each call; null when the image has none.
Function* find_function(Container& container, const char* name);
// A variable's address on a device, allocated at its first use with the value that it begins with; that of a managed
// one is the same on all. 0 when there is none.
CUdeviceptr find_variable(Container& container, const char* name, int device, size_t* size);

// Where a variable of the container has got a value on another device than `device`, by its address on this one.
struct VariableElsewhere {
  std::string name;
  int device = 0;
  uintptr_t address = 0;
};
std::optional<VariableElsewhere> set_elsewhere(Container& container, uintptr_t base, int device);

// A handle as the driver takes it: a live CUfunction or CUkernel, else null.
Function* function_of(CUfunction handle);

}  // namespace devtrace::simulate
