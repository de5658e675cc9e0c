#include "simulate/model/fault.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "simulate/model/arena.h"
#include "simulate/model/device.h"
#include "simulate/model/memory.h"
#include "simulate/model/pool.h"
#include "simulate/model/settings.h"

namespace devtrace::sim {
namespace {

bool usable(CUcontext context, const Allocation& a) {
  if (a.device < 0 || a.device == context->device || a.kind == Kind::managed) return true;
  if (a.kind == Kind::mapped) return a.access >> context->device & 1;
  if (context->peers >> a.device & 1) return true;
  return a.pool && (a.pool->access >> context->device & 1);
}

// Whether a program would have data for a kernel there: the heap, or memory mapped for it. Not the constants and
// variables of a loaded object: PyTorch passes references to its empty function objects (index_add's ReduceAdd) that no
// kernel reads.
bool host_data(uintptr_t address) {
  unsigned char resident;
  static const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  if (mincore(reinterpret_cast<void*>(address & ~(page - 1)), page, &resident)) return false;
  Dl_info object;
  return dladdr(reinterpret_cast<void*>(address), &object) == 0;
}

// Neither the context's own device's memory nor null, a small number or what is no address of this machine.
bool is_elsewhere(CUcontext context, uintptr_t word) {
  if (word < (uintptr_t{1} << 32) || word >> 47) return false;
  const int physical = arena_owner(word);
  return physical < 0 || ordinal_of(physical) != context->device;
}

bool illegal_word(CUcontext context, uintptr_t word, bool whole_parameter) {
  const int physical = arena_owner(word);
  Allocation a;
  if (find_memory(word, &a)) return !usable(context, a);
  // Freed memory of another device, or an address of its arena that nobody was given: hardware would fault, but a
  // number could look like that too. A host address is a pointer only when it is a parameter by itself.
  if (physical >= 0 || !whole_parameter || settings().pageable) return false;
  return host_data(word);
}

// For whoever has to find out why: error 700 itself names nothing.
void say(CUcontext context, const Function& f, size_t offset, uintptr_t word) {
  const char* verbose = std::getenv("DEVTRACE_SIM_VERBOSE");
  if (!verbose || std::strcmp(verbose, "1") != 0) return;
  const int owner = owner_of(word);
  std::fprintf(stderr, "devtrace: illegal address 0x%llx (%s%s) at byte %zu of the parameters of %s on device %d\n",
               static_cast<unsigned long long>(word), owner < 0 ? "the host's" : "of device ",
               owner < 0 ? "" : std::to_string(owner).c_str(), offset, f.name.c_str(), context->device);
}

// An array of addresses of which a kernel reads as many as its grid says; PyTorch leaves the rest as it was on the
// stack.
bool may_be_unset(const Function& f, size_t at) {
  return at > 0 && f.name.find("CatArrayBatchedCopy") != f.name.npos;
}

bool illegal_parameter(CUcontext context, const Function& f, const device_code::Parameter& p, const void* value) {
  for (size_t at = 0; at + sizeof(uintptr_t) <= p.size; at += sizeof(uintptr_t)) {
    uintptr_t word;
    std::memcpy(&word, static_cast<const char*>(value) + at, sizeof word);
    // In this order: whether there is host memory takes a system call.
    if (is_elsewhere(context, word) && f.facts->reads_address(p.offset + at) && !may_be_unset(f, at) &&
        illegal_word(context, word, p.size == sizeof word)) {
      say(context, f, p.offset + at, word);
      return true;
    }
  }
  return false;
}

}  // namespace

bool illegal_address(CUcontext context, const Function& f, void* const* arguments) {
  if (settings().no_faults || !arguments || !f.facts || !f.facts->parameters_known) return false;
  const std::vector<device_code::Parameter>& parameters = f.facts->parameters;
  for (size_t i = 0; i < parameters.size(); ++i)
    if (arguments[i] && illegal_parameter(context, f, parameters[i], arguments[i])) return true;
  return false;
}

bool illegal_address(CUcontext context, const Function& f, const Arguments& arguments) {
  if (settings().no_faults || !f.facts || !f.facts->parameters_known) return false;
  for (const device_code::Parameter& p : f.facts->parameters)
    if (p.offset + p.size <= arguments.values.size() &&
        illegal_parameter(context, f, p, arguments.values.data() + p.offset))
      return true;
  return false;
}

}  // namespace devtrace::sim
