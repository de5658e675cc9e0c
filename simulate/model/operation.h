// One thing a stream does. The same description serves a call, a captured node and a graph's node.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "simulate/common/cuda_headers.h"

namespace devtrace::simulate {

// A copy of a kernel's arguments by value, at the kernel's own offsets.
// kernelParams expects.
struct Arguments {
  std::vector<uint8_t> values;
  std::vector<size_t> offsets;
  std::vector<void*> pointers;  // as kernelParams wants them; made when somebody asks
};

class GraphMemory;
struct ConditionalGraphs;
struct ConditionalWork;

struct Operation {
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  CUcontext context = nullptr;
  bool in_operator = false, copies_suppressed = false;  // belongs to an operator that values/ computes: values/values.h
  bool deferred = false;                                // a kernel that may yet be computed: values/values.h
  uint32_t correlation = 0, stream = 0;  // the call and the stream's number, for a profiler; 0: none wants to know
  bool waited = false;                   // the call waits for it
  bool counted = false;                  // see count_launch
  bool cooperative = false;              // a kernel whose blocks may all wait for each other
  uint32_t cluster[3] = {};              // of a kernel: blocks; zeros: the kernel says how many
  uint32_t launched_at = 0;              // a kernel that does not run at once: common/kernel_run.h
  bool kept = false;                     // its effect comes when graph/kept_work.h says
  // Only the member that `type` names means anything.
  CUDA_KERNEL_NODE_PARAMS kernel = {};
  Arguments arguments;
  // Of a compute() that waits for other processes: whether it need not, now that the stream has come to it.
  int (*ready)(void*) = nullptr;
  void (*compute)(void*) = nullptr;  // does a library's kernel, with what follows
  std::shared_ptr<void> compute_data = {};
  // Of a library's kernel that nobody computes, or that is computed by what the library means: the function, and the
  // memory that it works on. At the end of that stands what it writes to, in front of this tables of pointers to such
  // memory.
  const char* library = nullptr;
  std::vector<CUdeviceptr> touched = {};
  size_t written = 0, leading_on = 0;
  CUDA_MEMCPY3D copy = {};
  CUDA_MEMSET_NODE_PARAMS set = {};
  CUDA_HOST_NODE_PARAMS host = {};
  CUevent event = nullptr;
  uint64_t event_turn = 0;  // which recording of the event
  CUgraph child = nullptr;
  std::shared_ptr<ConditionalGraphs> conditional = {};   // graph/conditional.h; of a node
  std::shared_ptr<const ConditionalWork> branches = {};  // ... of a launch
  CUDA_MEM_ALLOC_NODE_PARAMS alloc = {};
  std::shared_ptr<GraphMemory> memory = {};  // of an allocation: pool.h
  CUdeviceptr free = 0;
};

// Counts a kernel that is launched, and that nobody computes it, where that shall not wait until it is done.
void count_launch(Operation& operation);
// Copies, fills, calls a function of the host's, or computes a kernel; marks what that should have written where nobody
// computes it. False: it was not computed.
bool take_effect(const Operation& operation);
// Whether execute() may wait for another process. Once the stream has come to it.
bool waits_for_others(const Operation& operation);
// Does it, now. Bytes are really copied and set; kernels are counted, not run. A profiler that wants to know is told.
CUresult execute(Operation& operation);

// Whether the driver would accept the copy or fill: bounds, kinds, read-only memory. Called when it is enqueued.
CUresult check_copy(const CUDA_MEMCPY3D& copy);
CUresult check_set(const CUDA_MEMSET_NODE_PARAMS& set);

// The description of a plain copy of `size` bytes between any two addresses.
CUDA_MEMCPY3D plain_copy(CUdeviceptr to, CUdeviceptr from, size_t size);

}  // namespace devtrace::simulate
