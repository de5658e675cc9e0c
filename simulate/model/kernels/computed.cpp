#include "simulate/model/kernels/computed.h"

#include <dlfcn.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "simulate/kernels/launch.h"
#include "simulate/model/device.h"
#include "simulate/model/kernels/faulty_access.h"
#include "simulate/model/kernels/kernel_memory.h"
#include "simulate/model/kernels/linked.h"
#include "simulate/model/kernels/made_of.h"
#include "simulate/settings/settings.h"
#include "simulate/values/values.h"

namespace devtrace::simulate {
namespace {

// Libraries whose functions are computed by what they mean, if at all. Their kernels are left alone.
constexpr std::string_view kLeftAlone[] = {
    "libtorch",    "libc10",      "libaten",     "libcublas",     "libcudnn", "libnccl",
    "libcufft",    "libcusparse", "libcusolver", "libcurand",     "libnpp",   "libnvjpeg",
    "libcutensor", "libnvshmem",  "libcufile",   "libcusolverMg", "libnvrtc",
};

const char* file_of(const void* data) {
  Dl_info object;
  if (!dladdr(data, &object) || !object.dli_fname) return nullptr;
  const char* const slash = std::strrchr(object.dli_fname, '/');
  return slash ? slash + 1 : object.dli_fname;
}

bool left_alone(const char* file) {
  return file && std::ranges::any_of(kLeftAlone,
                                     [file](std::string_view one) { return std::string_view(file).starts_with(one); });
}

// More parameters than the driver takes are nonsense.
constexpr size_t kMostParameters = 64 * 1024;  // bytes

bool has_entry(const kernels::Program& program, const std::string& name) {
  const auto found = program.functions.find(name);
  if (found == program.functions.end()) return false;
  const ptx::Function& f = program.module.functions[found->second];
  size_t bytes = 0;
  for (const ptx::Variable& v : f.parameters) bytes += std::min(v.bytes, kMostParameters + 1);
  return f.entry && f.defined && bytes <= kMostParameters;
}

void read_program(Container& c) {
  const KernelPolicy policy = settings().kernels;
  if (policy == KernelPolicy::none || left_alone(file_of(c.data))) return;
  device::PtxText ptx = std::move(c.ptx);
  if (ptx.text.empty() && file_of(c.data))
    device::read_ptx_text(device::image_at(c.data), settings().gpu_model->architecture(), &ptx);
  if (ptx.text.empty() && !link_ptx(device::relocatable_images(c.data), &ptx, &c.not_computed_because)) return;
  if (policy == KernelPolicy::others && made_by_nvidia(ptx)) {
    c.not_computed_because = "NVIDIA's compiler made it, and it is computed with --kernels";
    return;
  }
  std::string error;
  c.program = kernels::load(std::move(ptx.text), &error);
  if (!c.program) c.not_computed_because = "its PTX cannot be read: " + error;
}

const kernels::Program* program_of(Container& c) {
  std::call_once(c.program_once, [&] { read_program(c); });
  return c.program.get();
}

// The launch's parameters as the kernel's code sees them.
std::vector<uint8_t> parameters(const Operation& op, const kernels::Code& code) {
  const std::vector<ptx::Variable>& formal = code.function->parameters;
  std::vector<uint8_t> all;
  for (size_t i = 0; i < formal.size(); ++i) {
    const size_t offset = code.offsets[i], bytes = formal[i].bytes;
    all.resize(std::max(all.size(), offset + bytes));
    if (op.kernel.kernelParams)
      std::memcpy(all.data() + offset, op.kernel.kernelParams[i], bytes);
    else if (offset < op.arguments.values.size())
      std::memcpy(all.data() + offset, op.arguments.values.data() + offset,
                  std::min(bytes, op.arguments.values.size() - offset));
  }
  return all;
}

// Variables that only the PTX has (strings, those of functions) get their place like all others.
void add_variables(Container& c, const ptx::Module& module) {
  std::lock_guard lock(c.mutex);
  for (const ptx::Variable& v : module.variables) {
    if (v.space == ptx::Space::shared || v.external) continue;
    const auto [known, added] = c.contents.variables.try_emplace(std::string(v.name));
    if (!added) continue;
    device::Variable& one = known->second;
    one.bytes = v.bytes;
    one.managed = v.managed;
    one.initial = v.initial;
    for (const ptx::AddressOf& word : v.addresses)
      one.addresses.push_back({word.offset, std::string(word.symbol), word.addend});
  }
}

// Where the module's variables are on the device. Words that are a function's address are set by the code's numbers.
std::vector<uint64_t> variables(Container& c, const kernels::Program& program, int ordinal) {
  std::vector<uint64_t> all;
  for (const ptx::Variable& v : program.module.variables) {
    const bool shared = v.space == ptx::Space::shared || v.external;
    all.push_back(shared ? 0 : find_variable(c, std::string(v.name).c_str(), ordinal, nullptr));
    for (const ptx::AddressOf& word : v.addresses) {
      const auto function = program.functions.find(word.symbol);
      if (!all.back() || function == program.functions.end() || word.offset + 8 > v.bytes) continue;
      const uint64_t value = kernels::kFunctionAddress + 16 * uint64_t{function->second};
      std::memcpy(reinterpret_cast<uint8_t*>(all.back()) + word.offset, &value, sizeof value);
    }
  }
  return all;
}

}  // namespace

void keep_ptx(Container& c) {
  // What is in a loaded object stays as long as that.
  if (settings().kernels == KernelPolicy::none || file_of(c.data)) return;
  ptx_of(device::image_at(c.data), &c.ptx);
}

bool may_compute(const Operation& op, const Function& f) {
  if (op.in_operator || op.compute || op.deferred || !f.container) return false;
  const kernels::Program* const program = program_of(*f.container);
  return program && has_entry(*program, f.name);
}

namespace {

// Null: nobody computes it.
const kernels::Code* code_of(const Function& f) {
  const kernels::Program* const program = f.container ? program_of(*f.container) : nullptr;
  return program && has_entry(*program, f.name) ? &program->codes[program->functions.at(f.name)] : nullptr;
}

}  // namespace

std::optional<int> computed_architecture(const Function& f) {
  if (!code_of(f)) return std::nullopt;
  return f.container->program->module.architecture;
}

Needs needs_of(const Function& f) {
  constexpr int kRegisters = 65536;  // of a multiprocessor, on every device
  Needs needs;
  if (f.facts)
    needs = {f.facts->max_threads, f.facts->static_shared, f.facts->constant, f.facts->local, f.facts->registers};
  const kernels::Code* const code = code_of(f);
  if (!code) return needs;
  needs.max_threads = code->function->max_threads;
  needs.static_shared = static_cast<int>(code->static_shared);
  needs.local = static_cast<int>(code->local_bytes);
  size_t constant = 0;
  for (const ptx::Variable& v : f.container->program->module.variables)
    if (v.space == ptx::Space::constant && !v.external) constant += v.bytes;
  needs.constant = std::max(needs.constant, static_cast<int>(std::min<size_t>(constant, INT_MAX)));
  needs.registers = std::min(needs.registers, kRegisters / std::max(needs.max_threads, 1));
  if (code->function->most_registers) needs.registers = std::min(needs.registers, code->function->most_registers);
  return needs;
}

std::string why_not_computed(const Function& f) {
  return f.container ? f.container->not_computed_because : "";
}

bool compute_kernel(const Operation& op, const Function& f) {
  Container& c = *f.container;
  const kernels::Program& program = *c.program;
  const uint32_t index = program.functions.at(f.name);
  std::call_once(c.variables_once, [&] { add_variables(c, program.module); });
  const CUDA_KERNEL_NODE_PARAMS& k = op.kernel;
  kernels::Launch launch;
  const unsigned grid[] = {k.gridDimX, k.gridDimY, k.gridDimZ}, block[] = {k.blockDimX, k.blockDimY, k.blockDimZ};
  std::copy_n(grid, 3, launch.grid);
  std::copy_n(block, 3, launch.block);
  kernels::set_cluster(program, index, &launch);
  if (op.cluster[0]) std::copy_n(op.cluster, 3, launch.cluster);
  launch.dynamic_shared = k.sharedMemBytes;
  launch.parameters = parameters(op, program.codes[index]);
  launch.variables = variables(c, program, op.context->device);
  launch.threads = settings().kernel_threads;
  launch.seconds = settings().kernel_seconds;
  launch.hazards = settings().kernel_checks;
  KernelMemory memory(op.context, &c);
  if (op.cooperative) launch.workspace = memory.workspace();
  const kernels::Result r = kernels::run(program, index, launch, memory);
  const RanKernel ran{f, program, index, launch, op.context, op.launched_at};
  if (r.kind == kernels::FaultKind::not_computed) {
    notify(ran, r);
    std::lock_guard lock(c.mutex);
    c.not_computed_because =
        r.instruction.empty()
            ? r.text
            : r.text + " is not known" + (r.file.empty() ? "" : ", at " + r.file + ":" + std::to_string(r.line));
    return false;
  }
  memory.finish();
  const CUresult error = r.kind == kernels::FaultKind::none ? CUDA_SUCCESS : fail(ran, r);
  notify(ran, error == CUDA_SUCCESS && memory.noted() ? *memory.noted() : r);
  if (error != CUDA_SUCCESS) op.context->sticky = error;  // whoever was notified has asked the driver before
  return true;
}

}  // namespace devtrace::simulate
