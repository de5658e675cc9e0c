#include "simulate/model/kernels/fault.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "simulate/model/device.h"
#include "simulate/model/memory/arena.h"
#include "simulate/model/memory/memory.h"
#include "simulate/model/memory/pool.h"
#include "simulate/settings/settings.h"

namespace devtrace::simulate {

bool usable(CUcontext context, const Allocation& a) {
  // cuMemSetAccess has to say so, also of the device where it lies.
  if (a.kind == AllocationKind::mapped) return a.access >> context->device & 1;
  if (a.device < 0 || a.device == context->device || a.kind == AllocationKind::managed) return true;
  if (context->peers >> a.device & 1) return true;
  return a.pool && (a.pool->access >> context->device & 1);
}

namespace {

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

// `perhaps`: the kernel goes there on a condition.
bool illegal_word(CUcontext context, uintptr_t word, bool whole_parameter, bool perhaps) {
  const int physical = arena_owner(word);
  Allocation a;
  if (find_memory(word, &a)) return !usable(context, a);
  // Freed memory of another device, or an address of its arena that nobody was given: hardware would fault, but a
  // number could look like that too. A host address is a pointer only when it is a parameter by itself. One that is
  // followed on a condition may be left alone: cuBLAS hands its kernels the scalars' addresses, and a mode that says
  // whether these are the device's.
  if (physical >= 0 || !whole_parameter || perhaps || settings().pageable) return false;
  return host_data(word);
}

// For whoever has to find out why: error 700 itself names nothing.
void explain_fault(CUcontext context, const Function& f, size_t offset, uintptr_t word) {
  const char* verbose = std::getenv("DEVTRACE_SIM_VERBOSE");
  if (!verbose || std::strcmp(verbose, "1") != 0) return;
  const int owner = owner_of(word);
  std::fprintf(stderr, "devtrace: illegal address 0x%llx (%s%s) at byte %zu of the parameters of %s on device %d\n",
               static_cast<unsigned long long>(word), owner < 0 ? "the host's" : "of device ",
               owner < 0 ? "" : std::to_string(owner).c_str(), offset, f.name.c_str(), context->device);
}

std::vector<AddressWord> address_words(const device::KernelFacts& facts) {
  std::vector<AddressWord> words;
  for (size_t i = 0; i < facts.parameters.size(); ++i) {
    const device::Parameter& p = facts.parameters[i];
    for (size_t at = 0; at + sizeof(uintptr_t) <= p.size; at += sizeof(uintptr_t))
      if (facts.reads_address(p.offset + at))
        words.push_back({i, at, facts.array_at(p.offset + at), facts.follows_address_perhaps(p.offset + at)});
  }
  for (size_t n = words.size(); n-- > 0;)
    words[n].behind = n + 1 < words.size() && words[n].array == words[n + 1].array ? words[n + 1].behind : n + 1;
  return words;
}

// `value_of(i)`: where the parameter's value is; null: nobody gave one.
template <class ValueOf>
bool illegal_parameters(CUcontext context, Function& f, const Grid& grid, const ValueOf& value_of) {
  const std::vector<device::Parameter>& parameters = f.facts->parameters;
  const auto number = [&](size_t offset, size_t bytes) -> std::optional<uint64_t> {
    for (size_t i = 0; i < parameters.size(); ++i) {
      const device::Parameter& p = parameters[i];
      if (offset < p.offset || offset + bytes > p.offset + p.size || !value_of(i)) continue;
      uint64_t found = 0;
      std::memcpy(&found, value_of(i) + (offset - p.offset), bytes);
      return found;
    }
    return std::nullopt;
  };
  std::call_once(f.addresses_once, [&] { f.addresses = address_words(*f.facts); });
  for (size_t n = 0; n < f.addresses.size(); ++n) {
    const AddressWord& each = f.addresses[n];
    const device::Parameter& p = parameters[each.parameter];
    const char* const value = value_of(each.parameter);
    if (!value) continue;
    if (each.array && !each.array->takes(p.offset + each.at, grid, number)) {
      if (!each.array->table_width) n = each.behind - 1;  // nor those behind it
      continue;
    }
    uintptr_t word;
    std::memcpy(&word, value + each.at, sizeof word);
    // Last, as whether there is host memory takes a system call.
    if (is_elsewhere(context, word) && illegal_word(context, word, p.size == sizeof word, each.perhaps)) {
      explain_fault(context, f, p.offset + each.at, word);
      return true;
    }
  }
  return false;
}

// Whether there is anything to go by.
bool is_checked(const Function& f) {
  return !settings().no_faults && f.facts && f.facts->parameters_known;
}

}  // namespace

bool is_unreachable(CUcontext context, uintptr_t address) {
  Allocation a;
  return !settings().no_faults && find_memory(address, &a) && !usable(context, a);
}

bool illegal_address(CUcontext context, Function& f, const Grid& grid, void* const* arguments) {
  if (!arguments || !is_checked(f)) return false;
  return illegal_parameters(context, f, grid, [&](size_t i) { return static_cast<const char*>(arguments[i]); });
}

bool illegal_address(CUcontext context, Function& f, const Grid& grid, const Arguments& arguments) {
  if (!is_checked(f)) return false;
  return illegal_parameters(context, f, grid, [&](size_t i) -> const char* {
    const device::Parameter& p = f.facts->parameters[i];
    if (p.offset + p.size > arguments.values.size()) return nullptr;
    return reinterpret_cast<const char*>(arguments.values.data()) + p.offset;
  });
}

}  // namespace devtrace::simulate
