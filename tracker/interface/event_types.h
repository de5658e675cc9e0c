// What an event of the hooks and of CUPTI's callbacks says (tracker/events.h). Plain values: nothing here names a CUDA
// or PyTorch symbol, and nothing is kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tracker/interface/device.h"
#include "tracker/interface/kernel.h"

namespace devtrace::events {

// A kernel that the calling thread launches, or makes part of a graph.
struct Launch {
  const void* function = nullptr;  // whose kernel `known_kernel` tells
  const Kernel* kernel = nullptr;
  // One address for each parameter; or, when null, the whole block of parameters.
  const void* const* parameters = nullptr;
  const void* block = nullptr;
  size_t block_bytes = 0;
  uint32_t grid[3] = {};
  uint32_t block_shape[3] = {};
  const void* stream = nullptr;
  bool graph = false;      // a node of a graph, told when it is added and when its parameters change
  int device = -1;         // on which it will run; -1: the thread's current one
  int stream_device = -1;  // of a launch that CUDA refused for its stream: whose the stream is
};

// A handle of one of CUDA's libraries: cuBLAS's, cuDNN's, a plan of cuFFT's. A number that no two live ones share.
using LibraryHandle = uint64_t;

struct StreamOfHandle {
  const void* stream = nullptr;  // null: the default one of the handle's device
  int device = -1;
};

// A call of a function that works by such a handle.
struct LibraryCall {
  const char* function = "";  // as programs write it: "cublasSgemm"
  LibraryHandle handle = 0;
  // Its arguments behind the handle; null where one is no address.
  const void* const* arguments = nullptr;
  size_t count = 0;
  StreamOfHandle (*stream)(LibraryHandle) = nullptr;  // slow; null: the library does not say
  // Which of them are descriptors of vectors or matrices: a bit each, the first one's the lowest.
  uint64_t descriptors = 0;
};

// What is known of the handle of a call: nothing, which device is its own, or that the call is a finding.
enum class HandleKnown : uint8_t { no, yes, told };

// Bytes that are copied between two addresses whose devices the caller need not know.
enum class Direction : uint8_t { undeclared, host_to_host, host_to_device, device_to_host, device_to_device };
struct Copy {
  const void* to = nullptr;  // null: an array or a variable of the program, whose address the caller does not know
  const void* from = nullptr;
  size_t bytes = 0;  // all that moves: of a pitched copy every row, without the gaps
  // What the caller says of the two ends, right or wrong; -1: nothing.
  Direction direction = Direction::undeclared;
  int to_device = -1;
  int from_device = -1;
  const void* stream = nullptr;
  const char* function = "";    // of the API: "cudaMemcpyAsync"
  uint32_t correlation_id = 0;  // under which `copy_took` will say how long it took; 0: nobody will
  bool several = false;         // one of several that one call makes, under one id
  bool graph = false;           // it becomes part of a graph, which will be launched later: nothing moves now
};

// What an executable graph copies at each launch. `of`: the node of the graph itself that the copy is, or is inside of.
struct GraphCopy {
  const void* node;
  const void* of;
  bool queried;  // nobody has seen the node being made: `copy` is what it does
  Copy copy;
};

// A rank that comes together with others in a communicator of NCCL's.
struct Rank {
  const char* function = "";  // that brings them together
  uint64_t communicator = 0;  // a number that all its ranks know
  int rank = 0;
  int size = 0;
  int device = -1;  // -1: not known
};

// Whether the library that refused a rank says that a device was there twice.
enum class Twice : uint8_t { no, some_rank, this_rank };

// Who raises a refusal.
enum class Raised : uint8_t {
  checked,    // c10::Error, or a check before it
  thrown,     // another C++ exception
  in_python,  // a Python exception is being made: by Python code, or in the place of a C++ exception
};

// An operation that PyTorch refuses, or a library on its behalf.
struct Refused {
  Raised raised = Raised::checked;
  std::string_view message;
  // What an error states of itself besides its message: "aten.add.Tensor", as Python calls the operator, on which
  // device an operand lies and where it should. Empty elsewhere.
  std::string_view operation, at, wanted;
  std::string_view function;  // C++ function and file that raise, as PyTorch states them
  std::string_view file;
  // From common_device_check_failure only; empty or unknown elsewhere.
  std::string_view method;
  std::string_view argument;
  Device common;      // the device of the operands checked before
  Device mismatched;  // the device of the one that differs
  const void* mismatched_data = nullptr;
};

}  // namespace devtrace::events
