#include "simulate/model/memory/written.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "binary/names.h"
#include "simulate/model/memory/memory.h"
#include "simulate/values/values.h"

namespace devtrace::simulate {
namespace {

enum class Constness { unknown, constant, writable };

// Of each parameter, by the kernel's mangled name; empty: it does not tell.
std::vector<Constness> signature(const std::string& mangled) {
  const std::string name = binary::demangled(mangled);
  if (name.empty() || name.back() != ')') return {};
  std::vector<Constness> found;
  int depth = 0;
  // From the end: what stands in front has parentheses of its own.
  for (size_t at = name.size() - 1, end = at; at > 0; --at) {
    const char c = name[at];
    if (c == ')' || c == '>') ++depth;
    if (c == '(' || c == '<') --depth;
    if (depth > 1 || (c != ',' && depth != 0)) continue;
    std::string type = name.substr(at + 1, end - at - 1);
    while (!type.empty() && type.back() == ' ') type.pop_back();
    const bool pointer = !type.empty() && type.back() == '*';
    const bool constant = type.size() > 7 && type.compare(type.size() - 7, 7, " const*") == 0;
    found.push_back(!pointer ? Constness::unknown : constant ? Constness::constant : Constness::writable);
    end = at;
    if (depth == 0) break;
  }
  std::reverse(found.begin(), found.end());
  return found;
}

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

std::vector<size_t> written_by(const Function& f) {
  std::vector<size_t> found;
  if (!f.facts || !f.facts->parameters_known) return found;
  std::vector<Constness> types = signature(f.name);
  types.resize(f.facts->parameters.size());
  for (size_t i = 0; i < types.size(); ++i) {
    const device::Parameter& p = f.facts->parameters[i];
    for (size_t at = 0; at + sizeof(uintptr_t) <= p.size; at += sizeof(uintptr_t))
      if (is_written(*f.facts, p.offset + at, types[i])) found.push_back(p.offset + at);
  }
  return found;
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

// Bytes from an address to the end of its block. A caching allocator of PyTorch's whose blocks nobody knows hands out
// 512 bytes at least.
size_t rest_of_block(uintptr_t address, const Allocation& a) {
  constexpr size_t kLeast = 512;
  uintptr_t begin;
  size_t size;
  const values::BlockOf block_of = values::block_of();
  if (block_of && block_of(address, &begin, &size)) return begin + size - address;
  if (!values::block_of() && values::has_torch() && a.device >= 0 && !a.pool) {
    return std::min<size_t>(kLeast - address % kLeast, a.base + a.size - address);
  }
  return a.base + a.size - address;
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

// From each of the addresses to the end of its block.
std::map<uintptr_t, size_t> ranges(std::vector<uintptr_t> addresses) {
  std::map<uintptr_t, size_t> found;
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

void mark(const std::map<uintptr_t, size_t>& all, values::Source source) {
  for (const auto& [begin, size] : all) {
    values::uncomputed().mark(begin, size, source);
    values::poison(begin, size);
  }
}

}  // namespace

void mark_written(const Operation& op, Function& f) {
  if (!values::are_computed() || (!op.kernel.kernelParams && op.arguments.values.empty())) return;
  std::call_once(f.written_once, [&] {
    f.written = written_by(f);
    f.source = values::kernel_source(f.name);
  });
  std::vector<uintptr_t> addresses;
  for (const size_t offset : f.written)
    if (const uintptr_t word = argument(op, f, offset)) addresses.push_back(word);
  if (op.deferred)
    values::deferred_kernel() = {f.name, f.source, ranges(std::move(addresses))};
  else
    mark(ranges(std::move(addresses)), f.source);
}

void mark_written(const Operation& op) {
  if (!values::are_computed() || !op.library) return;
  const auto first = op.touched.end() - static_cast<std::ptrdiff_t>(op.written);
  mark(ranges({first, op.touched.end()}), values::kernel_source(op.library));
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
