#include <string>

#include "interpose/devtrace.h"
#include "interpose/original.h"
#include "tracker/current_thread.h"
#include "tracker/findings.h"
#include "tracker/log.h"
#include "tracker/version.h"

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

DEVTRACE_EXPORT void devtrace_pause(void) {
  devtrace::current_thread::enter();
}

DEVTRACE_EXPORT void devtrace_resume(void) {
  devtrace::current_thread::leave();
}
}
