#include "tracker/copy/graph_copies.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "tracker/base/spinlock.h"
#include "tracker/copy/traffic.h"

namespace devtrace::copy::graph_copies {
namespace {

struct Plan {
  uint64_t site = 0;  // of the traffic counters; 0: no traffic
  uint64_t bytes = 0;
};
struct Entry {
  const void* node;
  const void* of;  // the node of the graph itself, where this one is in a child graph
  Plan plan;
  bool enabled = true;
};
struct Sum {
  uint64_t site;
  uint64_t bytes;
  uint64_t copies;
};
struct Executable {
  std::vector<Entry> entries;
  std::vector<Sum> sums;  // of what is enabled, by site
};

constexpr size_t kMostNodes = size_t{1} << 20;  // a program that builds graphs and never destroys one

constinit SpinLock lock;
constinit std::atomic<bool> any{false};
struct Known {
  std::unordered_map<const void*, Plan> nodes;
  std::unordered_map<const void*, Executable> executables;
};
constinit Known* known = nullptr;  // leaked: hooks run after static destructors

Known& all() {
  if (!known) known = new Known;
  return *known;
}

Plan plan_of(const events::Copy& copy, stacks::OnePythonStack& stack) {
  return {copy::traffic::site_of(copy, stack), copy.bytes};
}

void add_up(Executable& executable) {
  executable.sums.clear();
  for (const Entry& entry : executable.entries) {
    if (!entry.enabled || entry.plan.site == 0) continue;
    const auto same = std::find_if(executable.sums.begin(), executable.sums.end(),
                                   [&](const Sum& sum) { return sum.site == entry.plan.site; });
    if (same == executable.sums.end()) {
      executable.sums.push_back({entry.plan.site, entry.plan.bytes, 1});
    } else {
      same->bytes += entry.plan.bytes;
      ++same->copies;
    }
  }
}

// What is known of a node counts; of the others (copies of a child graph's, of a clone's), what CUDA says that they do.
std::vector<Plan> plans_of(const events::GraphCopy* copies, size_t count, stacks::OnePythonStack& stack) {
  std::vector<Plan> plans;
  for (size_t i = 0; i < count; ++i) plans.push_back(copies[i].queried ? plan_of(copies[i].copy, stack) : Plan{});
  return plans;
}

void append(Executable& executable, const events::GraphCopy* copies, const std::vector<Plan>& plans) {
  for (size_t i = 0; i < plans.size(); ++i) {
    const auto made = all().nodes.find(copies[i].node);
    executable.entries.push_back(
        {copies[i].node, copies[i].of, copies[i].queried || made == all().nodes.end() ? plans[i] : made->second});
  }
}

Executable* executable_of(const void* executable) {
  const auto found = all().executables.find(executable);
  return found == all().executables.end() ? nullptr : &found->second;
}

// Calls `to(Entry&)` on what is known of a node in an executable graph.
template <class To>
void change(const void* executable, const void* node, const To& to) {
  const std::lock_guard hold(lock);
  Executable* const found = executable_of(executable);
  if (!found) return;
  for (Entry& entry : found->entries)
    if (entry.node == node) to(entry);
  add_up(*found);
}

void keep(const void* node, const Plan& plan) {
  const std::lock_guard hold(lock);
  if (all().nodes.size() < kMostNodes || all().nodes.contains(node)) all().nodes[node] = plan;
}

}  // namespace

void planned(const void* node, const events::Copy& copy, stacks::OnePythonStack& stack) {
  keep(node, plan_of(copy, stack));
}

void planned_from_ranks(const void* node, Device to, uint64_t bytes, stacks::OnePythonStack& stack) {
  keep(node, {copy::traffic::site_from_ranks(to, stack), bytes});
}

bool is_planned(const void* node) {
  const std::lock_guard hold(lock);
  return known && known->nodes.contains(node);
}

void node_gone(const void* node) {
  const std::lock_guard hold(lock);
  if (known) known->nodes.erase(node);
}

void ready(const void* executable, const events::GraphCopy* copies, size_t count, stacks::OnePythonStack& stack) {
  const std::vector<Plan> plans = plans_of(copies, count, stack);
  const std::lock_guard hold(lock);
  if (count == 0) {
    if (known) known->executables.erase(executable);
    return;
  }
  Executable& made = all().executables[executable];
  made.entries.clear();
  append(made, copies, plans);
  add_up(made);
  any.store(true, std::memory_order_relaxed);
}

void changed(const void* executable, const void* node, const events::Copy& copy, stacks::OnePythonStack& stack) {
  const Plan plan = plan_of(copy, stack);
  change(executable, node, [&](Entry& entry) { entry.plan = plan; });
}

void child_changed(const void* executable, const void* node, const events::GraphCopy* copies, size_t count,
                   stacks::OnePythonStack& stack) {
  const std::vector<Plan> plans = plans_of(copies, count, stack);
  const std::lock_guard hold(lock);
  if (count == 0 && !executable_of(executable)) return;
  Executable& found = all().executables[executable];
  std::erase_if(found.entries, [&](const Entry& entry) { return entry.of == node; });
  append(found, copies, plans);
  add_up(found);
  any.store(true, std::memory_order_relaxed);
}

void enabled(const void* executable, const void* node, bool whether) {
  change(executable, node, [&](Entry& entry) { entry.enabled = whether; });
}

void gone(const void* executable) {
  const std::lock_guard hold(lock);
  if (known) known->executables.erase(executable);
}

void launched(const void* executable) {
  if (!any.load(std::memory_order_relaxed)) return;
  bool due = false;
  {
    const std::lock_guard hold(lock);
    if (const Executable* const found = executable_of(executable))
      for (const Sum& sum : found->sums) due |= copy::traffic::add(sum.site, sum.bytes, sum.copies);
  }
  if (due) copy::traffic::write_if_due();
}

void before_fork() {
  lock.lock();
}

void after_fork() {
  lock.unlock();
}

}  // namespace devtrace::copy::graph_copies
