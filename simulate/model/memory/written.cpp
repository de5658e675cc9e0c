#include "simulate/model/memory/written.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "simulate/model/kernels/signature.h"
#include "simulate/model/memory/memory.h"
#include "simulate/model/memory/reached.h"
#include "simulate/values/values.h"

namespace devtrace::simulate {
namespace {

using Constness = ParameterType::Constness;

bool holds(const std::vector<device::Bytes>& words, size_t offset) {
  return std::any_of(words.begin(), words.end(),
                     [&](device::Bytes r) { return r.begin <= offset && offset + sizeof(uintptr_t) <= r.end; });
}

// An address that the code certainly goes to memory with and never stores through is one that it reads from, even where
// other stores cannot be followed. One that it does not go to memory with at all, as far as is seen, may be stored
// through there.
bool is_written(const device::KernelFacts& facts, size_t offset, Constness constness) {
  if (holds(facts.writes, offset)) return true;
  if (constness == Constness::constant || !facts.reads_address(offset)) return false;
  if (!facts.writes_elsewhere && !facts.writes.empty()) return false;
  return !holds(facts.follows, offset) && !holds(facts.follows_perhaps, offset);
}

// Where in the parameters the addresses stand that the kernel writes to, and those that it may find others behind to
// write to.
void read_facts(Function& f) {
  if (!f.facts || !f.facts->parameters_known) return;
  std::vector<ParameterType> types = signature(f.name);
  types.resize(f.facts->parameters.size());
  for (size_t i = 0; i < types.size(); ++i) {
    const device::Parameter& p = f.facts->parameters[i];
    for (size_t at = p.offset; at + sizeof(uintptr_t) <= p.offset + p.size; at += sizeof(uintptr_t)) {
      if (is_written(*f.facts, at, types[i].constness)) f.written.push_back(at);
      if (f.facts->writes_elsewhere && types[i].leads_on && f.facts->reads_address(at)) f.leading_on.push_back(at);
    }
  }
}

// The word at that offset of the parameter block; 0: nobody gave one.
uintptr_t argument(const Operation& op, const Function& f, size_t offset) {
  uintptr_t word = 0;
  for (size_t i = 0; i < f.facts->parameters.size(); ++i) {
    const device::Parameter& p = f.facts->parameters[i];
    if (offset < p.offset || offset + sizeof word > p.offset + p.size) continue;
    if (op.kernel.kernelParams)
      std::memcpy(&word, static_cast<const char*>(op.kernel.kernelParams[i]) + (offset - p.offset), sizeof word);
    else if (offset + sizeof word <= op.arguments.values.size())
      std::memcpy(&word, op.arguments.values.data() + offset, sizeof word);
  }
  return word;
}

// Host memory that devices write to, so that the host reads it without a copy.
struct ForTheHost {
  std::atomic<bool> any{false};
  std::mutex mutex;
  std::map<uintptr_t, size_t> ranges;
};
ForTheHost& for_the_host() {
  static auto* one = new ForTheHost;
  return *one;
}

using Ranges = std::map<uintptr_t, size_t>;

// From each of the addresses to the end of its block.
Ranges ranges(std::vector<uintptr_t> addresses) {
  Ranges found;
  std::sort(addresses.begin(), addresses.end());
  for (size_t i = 0; i < addresses.size(); ++i) {
    Allocation a;
    if (!find_memory(addresses[i], &a)) continue;
    size_t size = rest_of_block(addresses[i], a);
    // What a pool of the program's own gave out ends at the next one at the latest.
    if (i + 1 < addresses.size() && addresses[i + 1] > addresses[i])
      size = std::min(size, addresses[i + 1] - addresses[i]);
    found[addresses[i]] = size;
    if (a.kind != AllocationKind::managed && a.device >= 0) continue;
    ForTheHost& host = for_the_host();
    std::lock_guard lock(host.mutex);
    host.ranges[addresses[i]] = size;
    host.any = true;
  }
  return found;
}

// What may be written to first: what certainly is counts where both are true.
std::vector<values::Unwritten> unwritten(const std::string& name, values::Source certain, values::Source perhaps,
                                         const std::vector<uintptr_t>& written, std::vector<uintptr_t> leading_on) {
  leading_on.insert(leading_on.end(), written.begin(), written.end());
  const std::vector<uintptr_t> reached = reached_from(leading_on);
  std::vector<values::Unwritten> found;
  if (!reached.empty()) {
    values::not_computed_reached(name, reached.size());
    std::vector<uintptr_t> all = reached;
    all.insert(all.end(), written.begin(), written.end());
    for (const auto& [begin, size] : ranges(std::move(all))) found.push_back({begin, size, perhaps});
  }
  for (const auto& [begin, size] : ranges(written)) found.push_back({begin, size, certain});
  return found;
}

}  // namespace

void mark_written(const Operation& op, Function& f) {
  if (!values::are_computed() || (!op.kernel.kernelParams && op.arguments.values.empty())) return;
  std::call_once(f.written_once, [&] {
    read_facts(f);
    f.source = values::kernel_source(f.name);
    f.perhaps_source = values::kernel_source(f.name, values::Certainty::perhaps);
  });
  const auto arguments = [&](const std::vector<size_t>& offsets) {
    std::vector<uintptr_t> addresses;
    for (const size_t offset : offsets)
      if (const uintptr_t word = argument(op, f, offset)) addresses.push_back(word);
    return addresses;
  };
  std::vector<values::Unwritten> found =
      unwritten(f.name, f.source, f.perhaps_source, arguments(f.written), arguments(f.leading_on));
  if (op.deferred)
    values::deferred_kernel() = {f.name, std::move(found)};
  else
    values::mark(found);
}

void mark_written(const Operation& op) {
  if (!values::are_computed() || !op.library) return;
  const auto first = op.touched.end() - static_cast<std::ptrdiff_t>(op.written);
  const auto leading_on = first - static_cast<std::ptrdiff_t>(op.leading_on);
  values::mark(unwritten(op.library, values::kernel_source(op.library),
                         values::kernel_source(op.library, values::Certainty::perhaps), {first, op.touched.end()},
                         {leading_on, first}));
}

void host_waited(bool for_event) {
  ForTheHost& host = for_the_host();
  if (!host.any.load(std::memory_order_relaxed)) return;
  std::map<uintptr_t, size_t> ranges;
  {
    std::lock_guard lock(host.mutex);
    ranges.swap(host.ranges);
    host.any = false;
  }
  for (const auto& [begin, size] : ranges)
    values::uncomputed_is_read(values::uncomputed().find(begin, size), !for_event);
}

}  // namespace devtrace::simulate
