#include "simulate/model/kernels/faulty_access.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "common/kernel_run.h"
#include "simulate/model/asynchronous/schedule.h"
#include "simulate/model/device.h"
#include "simulate/model/handles.h"
#include "simulate/model/kernels/computed.h"
#include "simulate/model/kernels/fault.h"
#include "simulate/model/kernels/kernel_memory.h"
#include "simulate/model/kernels/way.h"
#include "simulate/model/memory/arena.h"
#include "simulate/model/memory/memory.h"
#include "simulate/model/stream.h"
#include "simulate/model/textures.h"
#include "simulate/settings/settings.h"
#include "simulate/values/values.h"

namespace devtrace::simulate {
namespace {

std::string place(const kernels::Result& r) {
  const auto three = [](const uint32_t(&x)[3]) {
    return "(" + std::to_string(x[0]) + "," + std::to_string(x[1]) + "," + std::to_string(x[2]) + ")";
  };
  std::string text = "thread " + three(r.thread) + " of block " + three(r.block);
  if (!r.file.empty()) text += " at " + r.file + ":" + std::to_string(r.line);
  return text;
}

struct Outcome {
  CUresult error;
  std::string text;
};

Outcome outcome(CUcontext context, const kernels::Result& r) {
  using kernels::FaultKind;
  char address[32];
  std::snprintf(address, sizeof address, "0x%llx", static_cast<unsigned long long>(r.address));
  const std::string access = (r.writes ? "writes " : "reads ") + std::to_string(r.size) + " bytes at " + address;
  switch (r.kind) {
    case FaultKind::address:
      return {CUDA_ERROR_ILLEGAL_ADDRESS, "illegal address: " + r.instruction + " " + access + ", " +
                                              whose(context, r.address) + ", by " + place(r)};
    case FaultKind::shared:
      return {CUDA_ERROR_ILLEGAL_ADDRESS, "illegal address: " + r.instruction + " " + access +
                                              " of shared memory, which ends before, by " + place(r)};
    case FaultKind::texture:
      return {CUDA_ERROR_ILLEGAL_ADDRESS, "illegal address: " + r.instruction + " of " + r.text + ", by " + place(r)};
    case FaultKind::misaligned:
      return {CUDA_ERROR_MISALIGNED_ADDRESS,
              "misaligned address: " + r.instruction + " " + access + ", by " + place(r)};
    case FaultKind::assertion:
      return {CUDA_ERROR_ASSERT, r.text + " (" + place(r) + ")"};
    case FaultKind::time:
      return {CUDA_ERROR_LAUNCH_TIMEOUT, r.text};
    case FaultKind::stack:
      return {CUDA_ERROR_ILLEGAL_ADDRESS, "the stack is used up, by " + place(r)};
    default:
      return {CUDA_ERROR_LAUNCH_FAILED, "trap" + (r.text.empty() ? "" : ": " + r.text) + ", by " + place(r)};
  }
}

KernelRan watcher() {
  static const auto found = reinterpret_cast<KernelRan>(dlsym(RTLD_DEFAULT, kKernelRan));
  return found;
}

std::vector<KernelVariable> variables(const RanKernel& ran) {
  std::vector<KernelVariable> all;
  const auto& listed = ran.program.module.variables;
  for (size_t i = 0; i < listed.size() && i < ran.launch.variables.size(); ++i)
    all.push_back({listed[i].name, ran.launch.variables[i], listed[i].bytes});
  return all;
}

// The name of the variable by which the kernel came to the address; empty for a parameter, and where it is not known.
std::string add_way(const RanKernel& ran, uintptr_t begin, uintptr_t address, KernelAccess* access) {
  const kernels::Code& code = ran.program.codes[ran.index];
  std::vector<KernelParameter> layout;
  for (size_t i = 0; i < code.function->parameters.size(); ++i)
    layout.push_back({code.offsets[i], code.function->parameters[i].bytes});
  const auto way = way_to(ran.context, begin, address, ran.launch.parameters, layout, variables(ran));
  if (!way) return {};
  access->parameter = way->parameter;
  access->in_parameter = static_cast<uint32_t>(way->in_parameter);
  access->in_memory = way->in_memory;
  return std::string(way->variable);
}

// What the address has to do with memory, and how the kernel came to it; the variable's name as add_way.
std::string describe(const RanKernel& ran, const kernels::Result& r, KernelAccess* access) {
  using kernels::FaultKind;
  if (r.kind == FaultKind::hazard) {
    access->to = KernelAccess::To::shared;
    access->device = ran.context->device;
    return r.shared_variable.empty() ? "shared memory" : r.shared_variable;
  }
  Allocation a;
  const bool given_out = find_memory(r.address, &a);
  if (r.kind == FaultKind::noted && given_out && a.flags & kOfModule) {
    access->to = KernelAccess::To::variable;
    const auto there =
        set_elsewhere(*ran.function.container, a.base, ran.context->device).value_or(VariableElsewhere{});
    access->device = there.device;
    access->address = there.address;
    return there.name;
  }
  uintptr_t begin = r.address;
  if (r.kind == FaultKind::texture) {
    const TextureObject object = texture_of(r.address).value_or(TextureObject{});
    access->to = KernelAccess::To::texture;
    access->device = object.device;
    access->address = memory_of(object);
  } else if (r.kind == FaultKind::unwritten) {
    access->to = KernelAccess::To::unwritten;
    access->device = a.device;
    begin = a.base;
  } else if (given_out && !usable(ran.context, a)) {
    access->device = a.device;
    begin = a.base;
  } else {
    access->to = KernelAccess::To::nobodys;
    const int physical = arena_owner(r.address);
    if (physical >= 0) access->device = ordinal_of(physical);
    if (block_before(r.address, &a)) begin = a.base;
  }
  return add_way(ran, begin, r.address, access);
}

bool is_access(const kernels::Result& r) {
  using kernels::FaultKind;
  return r.kind == FaultKind::address || goes_on(r.kind) || (r.kind == FaultKind::texture && texture_of(r.address));
}

}  // namespace

uint32_t launch_site(const Function& f) {
  static const auto site = reinterpret_cast<CallSite>(dlsym(RTLD_DEFAULT, kCallSite));
  return site && may_compute({}, f) ? site() : 0;
}

CUresult fail(const RanKernel& ran, const kernels::Result& r) {
  const Outcome out = outcome(ran.context, r);
  std::fflush(stdout);
  std::fprintf(stderr, "devtrace: kernel %s on device %d: %s\n",
               values::readable_name(r.kernel.empty() ? ran.function.name : r.kernel).c_str(), ran.context->device,
               out.text.c_str());
  return out.error;
}

void notify(const RanKernel& ran, const kernels::Result& r) {
  const KernelRan call = watcher();
  if (!call) return;
  KernelRun run;
  run.kernel = ran.function.name.c_str();
  run.device = ran.context->device;
  std::copy_n(ran.launch.grid, 3, run.grid);
  std::copy_n(ran.launch.block, 3, run.block);
  run.parameters = ran.launch.parameters.data();
  run.parameter_bytes = ran.launch.parameters.size();
  run.launched_at = ran.launched_at;
  run.computed = r.kind == kernels::FaultKind::none || is_access(r);  // to its end, or to that access
  run.context = ran.context;
  run.usable = [](const void* context, uint64_t address) {
    Allocation a;
    return find_memory(address, &a) && usable(static_cast<CUcontext>(const_cast<void*>(context)), a);
  };
  KernelAccess access;
  std::string variable, words;
  if (is_access(r)) {
    access.writes = r.writes;
    access.address = r.address;
    access.bytes = r.size;
    access.instruction = r.instruction.c_str();
    std::copy_n(r.block, 3, access.block);
    std::copy_n(r.thread, 3, access.thread);
    access.file = r.file.c_str();
    access.line = r.line;
    variable = describe(ran, r, &access);
    if (access.to == KernelAccess::To::texture || access.to == KernelAccess::To::shared)
      words = r.text;
    else if (access.to == KernelAccess::To::unwritten)
      words = "memory that nothing has written since it was allocated";
    else if (access.to != KernelAccess::To::variable)
      words = whose(ran.context, r.address);
    access.whose = words.c_str();
    if (!variable.empty()) access.variable = variable.c_str();
    run.access = &access;
  }
  call(run);
}

}  // namespace devtrace::simulate

// Whether it will be said of the kernel that it ran, on the thread that launches it and before the launch returns.
extern "C" __attribute__((visibility("default"))) bool devtrace_sim_tells_of_kernel(const char* name,
                                                                                    const void* stream) {
  using namespace devtrace::simulate;
  CUstream of;
  if (is_async() || values::in_operator() || settings().kernels == KernelPolicy::none ||
      resolve(static_cast<CUstream>(const_cast<void*>(stream)), &of) || of->capture || !is_idle(of))
    return false;
  std::vector<const Function*> named;  // several modules may have one of that name
  handles<Function>().for_each([&](const Function* one) {
    if (one->name == name) named.push_back(one);
  });
  return !named.empty() && std::ranges::all_of(named, [](const Function* one) { return may_compute({}, *one); });
}
