// The list at exit: kernels and operators whose results nobody computed.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

#include "binary/names.h"
#include "simulate/settings/wanted_values.h"
#include "simulate/values/values.h"

namespace devtrace::simulate::values {
namespace {

struct Missing {
  std::mutex mutex;
  std::map<std::string, unsigned long> kernels;  // name as in the image, launches
  std::map<std::string, std::string> reasons;    // name as in the image
  std::map<std::string, size_t> reached;         // name as in the image, places
  std::map<std::string, std::string> operators;  // name, reason
  pid_t pid = 0;
};

bool wanted() {
  return wanted_values().policy != ValuesPolicy::none;
}

// For the command, should this process end without its list: a line for each name, and none once they are said.
void note(const std::string& name) {
  const char* path = std::getenv("DEVTRACE_SIM_NOT_COMPUTED");
  const int file = path && *path ? open(path, O_WRONLY | O_APPEND | O_CLOEXEC) : -1;
  if (file < 0) return;
  const std::string line = std::to_string(getpid()) + (name.empty() ? "" : " " + name) + "\n";
  if (write(file, line.data(), line.size()) < 0) std::perror("devtrace: what is not computed cannot be noted");
  close(file);
}

void list_not_computed();

Missing& missing() {
  static auto* one = [] {
    std::atexit(list_not_computed);
    auto* made = new Missing;
    made->pid = getpid();
    return made;
  }();
  return *one;
}

// By the name as people read it.
std::map<std::string, size_t> places_reached() {
  Missing& all = missing();
  std::lock_guard lock(all.mutex);
  std::map<std::string, size_t> found;
  for (const auto& [name, places] : all.reached) {
    size_t& known = found[readable_name(name)];
    known = std::max(known, places);
  }
  return found;
}

std::map<std::string, std::string> reasons() {
  Missing& all = missing();
  std::lock_guard lock(all.mutex);
  std::map<std::string, std::string> found;
  for (const auto& [name, reason] : all.reasons) found[readable_name(name)] = reason;
  return found;
}

void list_not_computed() {
  constexpr size_t kMost = 20;
  if (missing().pid != getpid()) return;  // a forked child: its parent tells
  const auto [kernels, operators] = not_computed();
  if (kernels.empty() && operators.empty()) return;
  std::fprintf(stderr, "devtrace: not computed in this rehearsal, results are as they lay in memory:\n");
  size_t said = 0;
  for (const auto& [name, reason] : operators)
    if (said++ < kMost) std::fprintf(stderr, "devtrace:   operator %s: %s\n", name.c_str(), reason.c_str());
  const std::map<std::string, size_t> reached = places_reached();
  const std::map<std::string, std::string> why = reasons();
  for (const auto& [name, launches] : kernels) {
    if (said++ >= kMost) continue;
    const auto places = reached.find(name);
    const auto reason = why.find(name);
    const std::string because = reason == why.end() ? "" : ": " + reason->second;
    const std::string more = places == reached.end() ? ""
                                                     : ", places that it may have written to by addresses in memory: " +
                                                           std::to_string(places->second);
    std::fprintf(stderr, "devtrace:   kernel %s (launches: %lu%s)%s\n", name.c_str(), launches, more.c_str(),
                 because.c_str());
  }
  if (said > kMost) std::fprintf(stderr, "devtrace:   and %zu more\n", said - kMost);
  note("");
}

}  // namespace

// Without the namespaces that have no name.
std::string readable_name(const std::string& mangled) {
  std::string name = binary::demangled(mangled);
  if (name == mangled) return mangled;
  constexpr std::string_view kAnonymous = "(anonymous namespace)::";
  for (size_t at; (at = name.find(kAnonymous)) != name.npos;) name.erase(at, kAnonymous.size());
  return binary::short_kernel_name(name);
}

void not_computed_kernel(const std::string& mangled, const std::string& reason) {
  if (!wanted()) return;
  Missing& all = missing();
  std::lock_guard lock(all.mutex);
  if (all.kernels[mangled]++ == 0) note("kernel " + readable_name(mangled));
  if (!reason.empty()) all.reasons[mangled] = reason;
}

void not_computed_reached(const std::string& mangled, size_t places) {
  if (!wanted()) return;
  Missing& all = missing();
  std::lock_guard lock(all.mutex);
  size_t& known = all.reached[mangled];
  known = std::max(known, places);
}

void not_computed_operator(const std::string& name, const std::string& reason) {
  if (!wanted()) return;
  Missing& all = missing();
  std::lock_guard lock(all.mutex);
  if (all.operators.emplace(name, reason).second) note("operator " + name + ": " + reason);
}

NotComputed not_computed() {
  Missing& all = missing();
  std::lock_guard lock(all.mutex);
  NotComputed found;
  for (const auto& [name, launches] : all.kernels) found.kernels[readable_name(name)] += launches;
  found.operators = all.operators;
  return found;
}

}  // namespace devtrace::simulate::values
