// Work of mathematics libraries that are themselves stubs, on memory of devices: recorded, or computed by a function
// of theirs.
#include <atomic>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "simulate/cuda/api.h"
#include "simulate/model/device.h"
#include "simulate/model/kernels/kernel_memory.h"
#include "simulate/model/operation.h"
#include "simulate/model/stream.h"
#include "simulate/settings/settings.h"
#include "simulate/values/values.h"

namespace simulate = devtrace::simulate;

namespace {

struct Calculation {
  const char* name = nullptr;
  CUcontext context = nullptr;
  void (*compute)(void*) = nullptr;
  std::shared_ptr<void> data;
};

// What the calling thread computes.
struct Doing {
  const Calculation& what;
  simulate::KernelMemory memory;
};
thread_local constinit Doing* t_doing = nullptr;

void calculate(void* data) {
  const auto& what = *static_cast<const Calculation*>(data);
  Doing doing{what, simulate::KernelMemory(what.context, nullptr)};
  Doing* const outer = std::exchange(t_doing, &doing);
  what.compute(what.data.get());
  t_doing = outer;
  doing.memory.finish();
}

void fault(const Calculation& what, uintptr_t address, size_t bytes, bool writes) {
  if (simulate::settings().no_faults) return;
  std::fflush(stdout);
  std::fprintf(stderr, "devtrace: %s on device %d: illegal address: %s %zu bytes up to 0x%llx, %s\n",
               simulate::values::readable_name(what.name).c_str(), what.context->device, writes ? "writes" : "reads",
               bytes, static_cast<unsigned long long>(address), simulate::whose(what.context, address).c_str());
  what.context->sticky = CUDA_ERROR_ILLEGAL_ADDRESS;
}

struct Touched {
  const void* const* memory;
  size_t count, leading_on, written;
};

CUresult submit(const char* name, CUcontext context, CUstream handle, const Touched& t,
                std::unique_ptr<Calculation> calculation) {
  if (context && !simulate::push_current(context)) return CUDA_ERROR_INVALID_CONTEXT;
  const CUresult result = [&] {
    CUstream stream;
    TRY(simulate::resolve(handle, &stream));
    REQUIRE_CONTEXT(own);
    if (context && stream->context->device != own->device) return CUDA_ERROR_INVALID_HANDLE;
    simulate::Operation operation;
    operation.type = CU_GRAPH_NODE_TYPE_KERNEL;
    operation.library = name;
    for (size_t i = 0; i < t.count; ++i) {
      if (!t.memory[i]) continue;
      operation.touched.push_back(reinterpret_cast<CUdeviceptr>(t.memory[i]));
      operation.written += i + t.written >= t.count;
      operation.leading_on += i + t.written < t.count && i + t.written + t.leading_on >= t.count;
    }
    if (calculation) {
      calculation->context = stream->context;
      operation.compute = calculate;
      operation.compute_data = std::shared_ptr<Calculation>(std::move(calculation));
    }
    return simulate::submit(stream, std::move(operation));
  }();
  if (context) simulate::pop_current();
  return result;
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) CUresult devtrace_sim_library_work(const char* name, CUcontext context,
                                                                          CUstream stream, const void* const* memory,
                                                                          size_t count, size_t leading_on,
                                                                          size_t written) {
  return submit(name, context, stream, {memory, count, leading_on, written}, nullptr);
}

__attribute__((visibility("default"))) int devtrace_sim_library_calculates() {
  return simulate::values::are_computed() && !simulate::values::in_operator();
}

__attribute__((visibility("default"))) CUresult devtrace_sim_library_calculate(
    const char* name, CUcontext context, CUstream stream, const void* const* memory, size_t count, size_t leading_on,
    size_t written, void (*compute)(void*), void (*drop)(void*), void* data) {
  std::shared_ptr<void> held(data, drop);
  std::unique_ptr<Calculation> calculation;
  if (devtrace_sim_library_calculates())
    calculation = std::make_unique<Calculation>(Calculation{name, nullptr, compute, std::move(held)});
  return submit(name, context, stream, {memory, count, leading_on, written}, std::move(calculation));
}

__attribute__((visibility("default"))) int devtrace_sim_library_reach(const void* memory, size_t bytes, int writes) {
  if (!t_doing || !bytes) return true;
  const auto begin = reinterpret_cast<uintptr_t>(memory);
  devtrace::simulate::kernels::Extent extent = {};
  for (uintptr_t at = begin; at - begin < bytes; at = extent.begin + extent.size)
    if (t_doing->memory.find(at, 1, writes, &extent) == devtrace::simulate::kernels::Memory::Found::no) {
      fault(t_doing->what, at, bytes, writes);
      return false;
    }
  if (t_doing->memory.follows()) t_doing->memory.used(begin, bytes, writes);
  return true;
}

}  // extern "C"
