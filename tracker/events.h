// The narrow waist: everything that interpose/ and cupti_tracer/ tell the tracker. Nothing here names a CUDA or PyTorch
// symbol.
//
// All of these may be called in hooks, from any thread, re-entrantly (a call from inside the tracker's own work is
// ignored), and none throws. Those marked "hot" take no lock while calling out, no GIL and no memory from malloc; the
// allocator's locks may be held.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/kernel_run.h"
#include "tracker/interface/collective.h"
#include "tracker/interface/event_types.h"
#include "tracker/interface/extent.h"
#include "tracker/memory/live_memory.h"

namespace devtrace::events {

// Hot. PyTorch's allocator gave out a block of memory (which may be part of an allocation), or took it back.
void block_given(const void* address, size_t bytes, Device device);
void block_taken(const void* address);
// Hot. The same with what the allocator says besides: the bytes in blocks of that device, and those that it holds of
// CUDA. One reference: a hook keeps what it was called with in memory, and passes that on.
struct BlockReport {
  const void* address;
  int64_t bytes;  // above 0: it gave out the block
  memory::live_memory::TorchHas has;
};
void block_reported(const BlockReport& report);
bool wants_blocks();  // should the allocators report at all?

// Hot. A library's pool made the Python object, of so many bytes, that stands for a part of its memory, or is about to
// free it.
void pool_object_made(const void* object, size_t bytes);
void pool_object_gone(const void* object);

// Hot. The CUDA runtime or driver gave out memory, or took it back.
void allocated(const void* address, size_t bytes, Device device, MemoryKind memory = MemoryKind::device);
void freed(const void* address);
void unmapped(const void* address, size_t bytes);  // everything that starts in a range

// A context of a device came to its end, and the memory that was allocated in it with it. Told afterwards: what CUDA
// still knows on that device, another context's, stays.
void device_reset(int ordinal);

// Hot. What `kernel_described` was told of the function that launches a kernel; null before.
const Kernel* known_kernel(const void* function);
// What CUDA answered of it. Returns what is kept: another thread may have been faster.
const Kernel* kernel_described(const void* function, std::string name,
                               const std::vector<device::Parameter>& parameters);
// Code was unloaded. Its handles are given out again: what is known of functions is asked anew.
void kernels_unloaded();

// Hot. A kernel is about to be launched by the calling thread, or to become part of a graph.
void launched(const Launch& launch);
// Hot: the same of a launch on the thread's current device, with an address for each parameter, said in fewer words.
// False: it has to be said in all.
bool passes(const void* function, const void* const* parameters);
bool wants_launches();  // are launches looked at at all?

// A variable of the program's gets a value on that device, where it has that address.
void variable_set(const void* address, size_t bytes, Device device);
// The calling thread's stack, of Python or else a native one; 0: none.
uint32_t call_site();
// The simulated driver has computed a kernel, on the calling thread.
void kernel_ran(const KernelRun& run);

// CUDA refused a launch that `launched` was told of, because its stream is another device's than the current one. Told
// before the program sees the error.
void launch_refused(const Launch& launch);

// A mathematics library gave out a handle, or bound it to the current device; it belongs to that device until it ends.
// `function` lives as long as the process.
void library_handle_made(LibraryHandle handle, const char* function);
void library_handle_gone(LibraryHandle handle);

// A mathematics library made a descriptor of a vector or matrix that stands for so much memory, the values last. Its
// last addresses are others now. It has ended.
void descriptor_made(const void* descriptor, const void* const* memory, size_t count);
void descriptor_changed(const void* descriptor, const void* const* memory, size_t count);
void descriptor_gone(const void* descriptor);

// Hot. A function is about to be called that works by a handle. Where the answer is `told`, nothing is told of the
// kernels that it launches, until it has returned.
HandleKnown library_called(const LibraryCall& call);
void library_returned();

// The library refused the call, because its handle is another device's than the current one.
void library_refused(const LibraryCall& call);
// A call that CUDA refused: the event that it records, its handle, on the stream that is its argument. Of that stream
// `device` is the device.
void event_refused(const LibraryCall& call, int device);

// Before a rank waits for the others of its communicator; when it has that, by its handle; and at its end. Or else when
// the library has refused these ranks, all of this process and one communicator, as wrong usage.
void rank_joins(const Rank& rank);
void rank_joined(const Rank& rank, const void* handle);
void ranks_refused(const Rank* ranks, size_t count, Twice twice);
void rank_left(const void* handle);
// All ranks of a communicator have split it: this one is `rank` of those of its color, by `handle`; null: of none.
void rank_split(const void* parent, int color, const Rank& rank, const void* handle);
// A rank, by its communicator's handle, is about to ask for a collective.
void collective_called(const char* function, const void* handle, const Collective& call);
// Hot. The bytes that a rank gets from others by such a call, at least; 0: none, or nobody wants to know. They move
// now, or at each launch of the graph that has the node.
uint64_t collective_receives(const void* handle, const Collective& call);
void collective_moves(const void* handle, uint64_t bytes);
void collective_planned(const void* node, const void* handle, uint64_t bytes);

// Hot. Bytes are about to be copied. When a copy has a correlation id, `copy_took` says later how long it took.
void copied(const Copy& copy);
void copy_took(uint32_t correlation_id, uint64_t bytes, uint64_t nanoseconds);
bool wants_copies();  // are copies looked at at all?

// A graph's copies, by handles that are compared only. A node that copies was made, or changed, by the calling thread.
void copy_planned(const void* node, const Copy& copy);
bool copy_is_planned(const void* node);
void graph_node_gone(const void* node);

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
// The program opened a range of mapped memory to devices that it named.
void range_opened(const void* address, size_t bytes);

// Hot. The calling thread's current device was set; -1: to one that has to be asked for. `hook`: the frame of
// cudaSetDevice's hook; null: it was set in another way.
void device_changed(int ordinal, const void* hook = nullptr);

// PyTorch is about to refuse an operation. Called with no lock held, before the exception exists.
void refused(const Refused& refusal);

}  // namespace devtrace::events
