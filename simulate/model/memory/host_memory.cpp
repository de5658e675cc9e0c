#include "simulate/model/memory/host_memory.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <sstream>
#include <vector>

#include "simulate/settings/option_parsing.h"
#include "simulate/settings/wanted_values.h"
#include "simulate/values/large.h"

namespace devtrace::simulate {
namespace {

constexpr size_t kForTheHost = size_t{256} << 20;  // never given to a device

std::optional<size_t> number_in(const std::string& path) {
  std::ifstream file(path);
  unsigned long long value;
  if (!(file >> value)) return std::nullopt;  // also "max"
  return value;
}

// The number behind `key` in a file of "key value" lines.
std::optional<size_t> entry_in(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    unsigned long long value;
    if (words >> name >> value && name == key) return value;
  }
  return std::nullopt;
}

std::optional<size_t> meminfo(const std::string& root) {
  const auto kilobytes = entry_in(root + "/proc/meminfo", "MemAvailable:");
  return kilobytes ? std::optional(*kilobytes * 1024) : std::nullopt;
}

struct Names {
  const char *limit, *used, *cache;
};
constexpr Names kV2 = {"memory.max", "memory.current", "inactive_file"};
constexpr Names kV1 = {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};

// What one group leaves; file cache that nobody uses would be given up.
std::optional<size_t> left_in(const std::string& folder, const Names& names) {
  const auto limit = number_in(folder + "/" + names.limit), used = number_in(folder + "/" + names.used);
  if (!limit || !used || *limit >= SIZE_MAX / 4) return std::nullopt;
  const size_t cache = entry_in(folder + "/memory.stat", names.cache).value_or(0);
  const size_t held = *used - std::min(*used, cache);
  return *limit - std::min(*limit, held);
}

void least(std::optional<size_t>* all, std::optional<size_t> one) {
  if (one) *all = all->has_value() ? std::min(**all, *one) : *one;
}

// A group and those above it. In a container the path may be the host's, of which only the top is there.
std::optional<size_t> least_left(const std::string& top, std::string path, const Names& names) {
  std::optional<size_t> found;
  while (!path.empty() && path != "/") {
    least(&found, left_in(top + path, names));
    path = path.substr(0, path.rfind('/'));
  }
  least(&found, left_in(top, names));
  return found;
}

std::optional<size_t> control_groups(const std::string& root) {
  std::optional<size_t> found;
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {  // hierarchy:controllers:path
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1), top = root + "/sys/fs/cgroup";
    if (controllers == ",,") least(&found, least_left(top, path, kV2));
    if (controllers.find(",memory,") != std::string::npos) least(&found, least_left(top + "/memory", path, kV1));
  }
  return found;
}

std::string readable(size_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, bytes < size_t{1} << 30 ? "%.0f MiB" : "%.1f GiB",
                static_cast<double>(bytes) / static_cast<double>(bytes < size_t{1} << 30 ? 1 << 20 : 1 << 30));
  return text;
}

bool all_are_computed() {
  return wanted_values().policy == ValuesPolicy::all && values::large_from() == SIZE_MAX;
}

// A block that the host could not fill is given all the same, and counts as what is written to it. Should the host get
// out of memory by that, it is this process that ends.
void say_large_block(size_t size, size_t left) {
  static std::atomic<bool> said{false};
  if (said.exchange(true)) return;
  std::ofstream("/proc/self/oom_score_adj") << 1000;
  if (!all_are_computed()) return;
  std::fprintf(stderr,
               "devtrace: a block of %s was given, of which the host has %s left: it takes what is written to "
               "(DEVTRACE_SIM_HOST_MEMORY sets a limit)\n",
               readable(size).c_str(), readable(left).c_str());
}

// What is kept for small tensors when large ones are left: those are computed on.
size_t kept_for_small(size_t has) {
  return std::min(has / 16, size_t{1} << 30);
}

// Too much for the host, or close to it, where no pool is asked for: those take what is written to.
bool leaves_large(size_t size, size_t left, size_t has) {
  if (!all_are_computed() || size >= large_block()) return false;
  if (size <= left && (size < wanted_values().large || left - size >= kept_for_small(has))) return false;
  return values::leave_large_from_now(readable(size) + " more were asked for, and " + readable(left) + " are left");
}

// What was asked for as the host's memory; nothing: the host is asked.
const std::optional<size_t>& asked_for() {
  static const std::optional<size_t> value = [] {
    const char* text = std::getenv("DEVTRACE_SIM_HOST_MEMORY");
    if (!text || !*text) return std::optional<size_t>();
    const std::optional<size_t> bytes = read_memory(text);
    if (!bytes) std::fprintf(stderr, "devtrace: DEVTRACE_SIM_HOST_MEMORY=%s is no size like 8GiB\n", text);
    return bytes;
  }();
  return value;
}

// Of what the host has, beside what devices have been given.
size_t left_of(size_t has, const HostUse& use) {
  const size_t untouched = use.given - std::min(use.given, use.touched + use.large);
  const size_t asked = all_are_computed() ? use.given : use.touched + untouched;
  return has - std::min(has, asked_for() ? asked : untouched + kForTheHost);
}

}  // namespace

std::optional<size_t> host_available(const std::string& root) {
  std::optional<size_t> found = meminfo(root);
  least(&found, control_groups(root));
  return found;
}

size_t large_block() {
  if (wanted_values().policy == ValuesPolicy::none) return size_t{2} << 20;
  if (all_are_computed()) return size_t{4} << 30;
  return std::bit_ceil(std::max(values::large_from(), WantedValues{}.large));
}

bool host_gives(size_t size, const std::function<HostUse()>& in_use) {
  // What was found to be there is handed out in parts without a look, as long as they are small beside it.
  static std::atomic<size_t> budget{0};
  for (size_t now = budget; now >= size;)
    if (budget.compare_exchange_weak(now, now - size)) return true;
  const std::optional<size_t> has = asked_for() ? asked_for() : host_available();
  if (!has) return true;
  size_t left = left_of(*has, in_use());
  if (leaves_large(size, left, *has)) left = left_of(*has, in_use());
  budget = size <= left && !asked_for() ? (left - size) / 16 : 0;
  if (size <= left) return true;
  if (size >= large_block() && left && (!asked_for() || !all_are_computed())) {
    say_large_block(size, left);
    return true;
  }
  static std::atomic<bool> said{false};
  if (!said.exchange(true))
    std::fprintf(
        stderr,
        "devtrace: out of memory: the host is full, not the simulated device: %s more were asked for, and %s are left "
        "(DEVTRACE_SIM_HOST_MEMORY sets another limit%s)\n",
        readable(size).c_str(), readable(left).c_str(),
        all_are_computed() ? "; with --values small large tensors take none" : "");
  return false;
}

}  // namespace devtrace::simulate
