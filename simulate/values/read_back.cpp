// The line that is said when the host reads what nobody computed.
#include <dlfcn.h>
#include <execinfo.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "simulate/settings/option_parsing.h"
#include "simulate/values/uncomputed.h"
#include "simulate/values/unknown.h"
#include "simulate/values/values.h"

namespace devtrace::simulate::values {
namespace {

struct Sources {
  std::mutex mutex;
  struct Named {
    std::string name;
    Certainty certainty;
    bool operator==(const Named&) const = default;
  };
  std::vector<Named> names;  // by number, from 1
  std::set<Source> told;
};
Sources& sources() {
  static auto* one = new Sources;
  return *one;
}

Source source(const std::string& name, Certainty certainty) {
  Sources& all = sources();
  std::lock_guard lock(all.mutex);
  const Sources::Named wanted{name, certainty};
  for (size_t i = 0; i < all.names.size(); ++i)
    if (all.names[i] == wanted) return static_cast<Source>(i + 1);
  all.names.push_back(wanted);
  return static_cast<Source>(all.names.size());
}

std::atomic<std::string (*)()> g_line_of_python{nullptr};

bool is_set(const char* name) {
  const char* value = std::getenv(name);
  return value && !std::strcmp(value, "1");
}

std::string file_name(const char* path) {
  const char* slash = std::strrchr(path, '/');
  return slash ? slash + 1 : path;
}

// The innermost frame that is no library's.
std::string line_of_program() {
  void* frames[64];
  const int count = backtrace(frames, 64);
  for (int i = 0; i < count; ++i) {
    Dl_info found;
    if (!dladdr(frames[i], &found) || !found.dli_fname) continue;
    if (file_name(found.dli_fname).find(".so") != std::string::npos) continue;
    char place[32];
    std::snprintf(place, sizeof place, "+0x%lx",
                  static_cast<unsigned long>(static_cast<char*>(frames[i]) - static_cast<char*>(found.dli_fbase)));
    const std::string in = file_name(found.dli_fname) + place;
    return found.dli_sname ? readable_name(found.dli_sname) + " (" + in + ")" : in;
  }
  return {};
}

}  // namespace

Source kernel_source(const std::string& mangled, Certainty certainty) {
  return source("kernel " + readable_name(mangled), certainty);
}

Source operator_source(const std::string& name) {
  return source("operator " + name, Certainty::certain);
}

Source source_named(const std::string& name) {
  return source(name, Certainty::certain);
}

std::string name_of(Source source) {
  Sources& all = sources();
  std::lock_guard lock(all.mutex);
  return source ? all.names[static_cast<size_t>(source) - 1].name : std::string();
}

void set_line_of_python(std::string (*line)()) {
  g_line_of_python = line;
}

void end_if_strict() {
  if (is_set("DEVTRACE_SIM_STRICT")) end_program("--strict");
}

void end_program(const char* why) {
  std::fprintf(stderr, "devtrace: the program ends here, with exit status %d (%s)\n", kNotComputed, why);
  // Past this library's own, to whoever stands in front: devtrace ends its log there.
  if (auto* leave = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "_exit"))) leave(kNotComputed);
  ::_exit(kNotComputed);
}

std::string program_line(bool may_take_gil) {
  auto* const python = g_line_of_python.load();
  const std::string line = python && may_take_gil ? python() : std::string();
  return line.empty() ? line_of_program() : line;
}

void uncomputed_is_read(Source source, bool may_take_gil) {
  if (source && source == unknown_source()) return unknown_is_read(may_take_gil);
  Sources::Named what;
  {
    Sources& all = sources();
    std::lock_guard lock(all.mutex);
    if (!source || !all.told.insert(source).second) return;
    what = all.names[static_cast<size_t>(source) - 1];
  }
  const std::string line = program_line(may_take_gil);
  std::fprintf(
      stderr, "devtrace: %s%sthe host reads what %s %s, which this rehearsal does not compute: %s\n", line.c_str(),
      line.empty() ? "" : ": ", what.name.c_str(),
      what.certainty == Certainty::certain ? "should have written" : "may have written by an address in memory",
      is_set("DEVTRACE_SIM_POISON") ? "it is poison" : "it is what lay in memory");
  end_if_strict();
}

}  // namespace devtrace::simulate::values
