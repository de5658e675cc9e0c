#include <algorithm>
#include <cstring>
#include <string>

#include "common/version.h"
#include "finding/json.h"
#include "interpose/devtrace.h"
#include "interpose/linking/original.h"
#include "tracker/base/thread_state.h"
#include "tracker/evidence/origins/origins.h"
#include "tracker/findings/findings.h"
#include "tracker/log/log.h"

extern "C" {

DEVTRACE_EXPORT const char* devtrace_version(void) {
  return devtrace::kVersion;
}

DEVTRACE_EXPORT uint64_t devtrace_finding_count(void) {
  return devtrace::findings::count();
}

DEVTRACE_EXPORT uint64_t devtrace_fault_count(void) {
  return devtrace::findings::faults();
}

DEVTRACE_EXPORT uint64_t devtrace_occurrences(uint64_t id) {
  return devtrace::findings::occurrences_of(id);
}

DEVTRACE_EXPORT const char* devtrace_log_path(void) {
  static thread_local std::string path;
  path = devtrace::log::is_open() ? devtrace::log::path() : std::string();
  return path.c_str();
}

DEVTRACE_EXPORT size_t devtrace_where(const void* address, const char* device, char* reply, size_t size) {
  std::string text;
  try {
    const devtrace::ReentrancyGuard inside;
    devtrace::finding::Operand memory;
    devtrace::evidence::add_provenance(memory, device ? device : "", reinterpret_cast<uintptr_t>(address),
                                       devtrace::evidence::source_from_disk());
    text = devtrace::report::json_line(devtrace::finding::to_json(memory));
  } catch (...) {  // out of memory
  }
  if (reply && size > 0) {
    const size_t fits = std::min(text.size(), size - 1);
    std::memcpy(reply, text.data(), fits);
    reply[fits] = '\0';
  }
  return text.size();
}

DEVTRACE_EXPORT void devtrace_pause(void) {
  devtrace::thread_state::enter();
}

DEVTRACE_EXPORT void devtrace_resume(void) {
  if (devtrace::thread_state::entered()) devtrace::thread_state::leave();  // one too many is nothing
}
}
