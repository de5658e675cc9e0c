// What the stubs of the mathematics libraries share: handles with a stream, and launches that are recorded and
// computed or not.
#pragma once

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <vector>

#include "driver_aliases.inc"
#pragma GCC visibility push(default)
#include <cuda.h>
#pragma GCC visibility pop

#include "simulate/common/uncomputed_part.h"

// Records work of a library on a stream, as a kernel of that name; in libcuda. The context need not be the current one.
// On memory of devices: where a kernel could not reach that it faults. What is no device's memory is passed
// over. `written`: how many of them, the last, it writes to; in front of these are `leading_on` tables of pointers to
// what it writes to. The name stays where it is. No context: the current one.
extern "C" CUresult devtrace_sim_library_work(const char* name, CUcontext context, CUstream stream,
                                              const void* const* memory, size_t count, size_t leading_on,
                                              size_t written);
// The same, computed: `compute(data)` when the stream comes to it, at each replay where it is captured. Not called for
// what belongs to an operator of PyTorch's, or where nothing is computed at all. `drop(data)` when it will not come
// again.
extern "C" CUresult devtrace_sim_library_calculate(const char* name, CUcontext context, CUstream stream,
                                                   const void* const* memory, size_t count, size_t leading_on,
                                                   size_t written, void (*compute)(void*), void (*drop)(void*),
                                                   void* data);
// Whether a calculation that is submitted now will be computed.
extern "C" int devtrace_sim_library_calculates();
// Of the calculation that the calling thread does: whether its device reaches all of the memory. If not, that is error
// 700 and a line, and nothing more may be read or written. What it writes is as computed as all that it has read.
extern "C" int devtrace_sim_library_reach(const void* memory, size_t bytes, int writes);
// Work of a library that writes to `memory` and is computed: `compute(data)` when the stream comes to it, at each
// replay where it is captured. `drop(data)` when it will not come again. Where a kernel could not reach the memory it
// faults.
extern "C" CUresult devtrace_sim_library_compute(const char* name, CUstream stream, void* memory,
                                                 void (*compute)(void*), void (*drop)(void*), void* data);
// The same together with other processes, on memory that is read and memory that is written to. `ready(data)` does its
// share when the stream comes to it, and says whether compute(data) need not wait for others. It is the stream that
// waits, not the host.
extern "C" CUresult devtrace_sim_library_meet(const char* name, CUstream stream, const void* read, void* written,
                                              int (*ready)(void*), void (*compute)(void*), void (*drop)(void*),
                                              void* data);

// The handle of the memory around a pointer for other processes, at once; in libcuda. Null memory, host memory and what
// cannot be shared: CUDA_ERROR_INVALID_VALUE.
extern "C" CUresult devtrace_sim_memory_handle(CUipcMemHandle* handle, CUdeviceptr pointer);

// Of memory of this process. False: all of it is computed.
extern "C" int devtrace_sim_uncomputed_part(const void* memory, size_t bytes, devtrace::simulate::UncomputedPart* part);
// It was written, by what is computed but for that part.
extern "C" void devtrace_sim_received(const void* memory, size_t bytes, const devtrace::simulate::UncomputedPart* part);
// Whether --values small leaves what these bytes become as a part of `of` bytes: numbers of floating point by their
// size, others where they depend on what was left.
extern "C" int devtrace_sim_is_left(const void* memory, size_t bytes, size_t of, int floating);
// That was left: it is zero and unknown, and takes no memory of the host. Null: nothing.
extern "C" void devtrace_sim_received_nothing(void* memory, size_t bytes);

namespace devtrace::simulate::library {

// The object behind every opaque handle that a library gives out, and behind its descriptors (zeroed).
struct Object {
  void* magic = nullptr;
  CUcontext context = nullptr;  // that was current when it was made
  CUstream stream = nullptr;
  int modes[8] = {};
  size_t numbers[8] = {};
  void* pointers[8] = {};

  // Of a descriptor: the memory that it stands for.
  void describe(std::initializer_list<const void*> memory);
};

// What a function works on: memory, tables of pointers, and what these and descriptors lead to.
struct Memory {
  std::vector<const void*> read, leading_on, written;
  // The function writes to what it stands for.
  void describe(const void* descriptor);
};

Object* make();  // null when there is no device
bool alive(const void* handle);
bool destroy(const void* handle);  // false when it was not alive
inline Object* object(const void* handle) {
  return static_cast<Object*>(const_cast<void*>(handle));
}

// Records a launch on the handle's stream and on memory of devices, in the handle's own context, or in the current one.
// Zeroes the result codes that the library would have written: device memory is host memory here. Each of these is
// false or zero when nothing was wrong.
bool launch(const char* name, const void* handle, const Memory& memory);
bool launch_in_current(const char* name, const void* handle, const Memory& memory);
void succeed(int* info, long long count);

// The same, and `work` is done when the stream comes to it: it asks for all that it reads and writes by reads() and
// writes(). Where it is not computed the launch is recorded.
bool calculate(const char* name, const void* handle, const Memory& memory, std::function<void()> work);
bool calculate_in_current(const char* name, const void* handle, const Memory& memory, std::function<void()> work);
// The same on any stream of a context; none: the current one.
bool calculate(const char* name, CUcontext context, CUstream stream, const Memory& memory, std::function<void()> work);
// Whether it will be computed: if not, codes of results have to be set at once, by succeed().
bool calculates();
// At once, when these devices have done what they have: on memory of the host and of all of them.
bool calculate_on(const std::vector<int>& devices, const char* name, const std::function<void()>& work);
// In the device's own context.
bool on_device(int device, const std::function<bool()>& work);
// Within such work: the memory is reached, or the work ends here, as a kernel does.
void reads(const void* memory, size_t bytes);
void writes(const void* memory, size_t bytes);
// The work ends here.
[[noreturn]] void give_up();
// Until the handle's stream has done all of its work. Not while it is captured.
bool wait(const void* handle);

}  // namespace devtrace::simulate::library
