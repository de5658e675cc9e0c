// The narrow waist: everything that interpose/ and cupti_tracer/ tell the tracker. Nothing here names a CUDA or PyTorch
// symbol.
//
// All of these may be called in hooks, from any thread, re-entrantly (a call from inside the tracker's own work is
// ignored), and none throws. Those marked "hot" take no lock while calling out, no GIL and no memory from malloc; the
// allocator's locks may be held.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tracker/device.h"
#include "tracker/kernels.h"
#include "tracker/ownership.h"

namespace devtrace::events {

// Hot. PyTorch's allocator gave out a block of memory (which may be part of an allocation), or took it back.
void block_given(const void* address, size_t bytes, Device device);
void block_taken(const void* address);
bool wants_blocks();  // should the allocators report at all?

// Hot. The CUDA runtime or driver gave out memory, or took it back.
void allocated(const void* address, size_t bytes, Device device, ownership::Memory memory = ownership::Memory::device);
void freed(const void* address);
void unmapped(const void* address, size_t bytes);  // everything that starts in a range

// A context of a device came to its end, and the memory that was allocated in it with it. Told afterwards: what CUDA
// still knows on that device, another context's, stays.
void device_reset(int ordinal);

// Hot. A kernel is about to be launched by the calling thread, or to become part of a graph.
struct Launch {
  const void* function = nullptr;  // whose kernel `kernels::known` tells
  const kernels::Kernel* kernel = nullptr;
  // One address for each parameter; or, when null, the whole block of parameters.
  const void* const* parameters = nullptr;
  const void* block = nullptr;
  size_t block_bytes = 0;
  uint32_t grid[3] = {};
  uint32_t block_shape[3] = {};
  const void* stream = nullptr;
  bool graph = false;  // a node of a graph, told when it is added and when its parameters change
  int device = -1;     // on which it will run; -1: the thread's current one
};
void launched(const Launch& launch);
bool wants_launches();  // are launches looked at at all?

// Hot. Bytes are about to be copied between two addresses whose devices the caller need not know.
enum class Direction : uint8_t { unstated, host_to_host, host_to_device, device_to_host, device_to_device };
struct Copy {
  const void* to = nullptr;  // null: an array or a variable of the program, whose address the caller does not know
  const void* from = nullptr;
  size_t bytes = 0;  // all that moves: of a pitched copy every row, without the gaps
  // What the caller says of the two ends, right or wrong; -1: nothing.
  Direction direction = Direction::unstated;
  int to_device = -1;
  int from_device = -1;
  const void* stream = nullptr;
  const char* function = "";  // of the API: "cudaMemcpyAsync"
  uint32_t number = 0;        // under which `copy_took` will say how long it took; 0: nobody will
  bool several = false;       // one of several that one call makes, under one number
  bool graph = false;         // it becomes part of a graph, which will be launched later: nothing moves now
};
void copied(const Copy& copy);
void copy_took(uint32_t number, uint64_t bytes, uint64_t nanoseconds);
bool wants_copies();  // are copies looked at at all?

// A graph's copies, by handles that are compared only. A node that copies was made, or changed, by the calling thread.
void copy_planned(const void* node, const Copy& copy);
bool copy_is_planned(const void* node);
void graph_node_gone(const void* node);

// What an executable graph copies at each launch. `of`: the node of the graph itself that the copy is, or is inside of.
struct GraphCopy {
  const void* node;
  const void* of;
  bool described;  // nobody has seen the node being made: `copy` is what it does
  Copy copy;
};
void graph_ready(const void* executable, const GraphCopy* copies, size_t count);
void graph_copy_changed(const void* executable, const void* node, const Copy& copy);
void graph_child_changed(const void* executable, const void* node, const GraphCopy* copies, size_t count);
void graph_node_enabled(const void* executable, const void* node, bool enabled);
void graph_gone(const void* executable);

// Hot. The executable graph is about to be launched.
void graph_launched(const void* executable);

// A device was allowed to reach another's memory, or no longer. `own`: the program asked for it, not PyTorch, which
// does so for its copies.
void peers_changed(int device, int peer, bool allowed, bool own);

// Hot. The calling thread's current device was set; -1: to one that has to be asked for.
void device_changed(int ordinal);

// PyTorch is about to refuse an operation. Called with no lock held, before the exception exists.
struct Refused {
  std::string_view message;
  std::string_view function;  // C++ function and file that raise, as PyTorch states them
  std::string_view file;
  // From common_device_check_failure only; empty or unknown elsewhere.
  std::string_view method;
  std::string_view argument;
  Device common;  // the device of the operands checked before
  Device odd;     // the device of the one that differs
  const void* odd_data = nullptr;
};
void refused(const Refused& refusal);

}  // namespace devtrace::events
