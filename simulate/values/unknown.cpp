#include "simulate/values/unknown.h"

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

#include "simulate/values/large.h"

namespace devtrace::simulate::values {
namespace {

// The line of the program is looked for at each of so many reads, and counts for all of them: it takes a while.
constexpr unsigned kEach = 100;

std::atomic<unsigned long> g_left{0};
std::atomic<pid_t> g_pid{0};

// At exit.
void say_left() {
  if (g_pid != getpid()) return;  // a forked child: its parent tells
  std::fprintf(
      stderr,
      "devtrace: %lu operators were not computed (--values small): on tensors of %zu bytes or more, or on what "
      "depends on those\n",
      left_as_unknown(), large_from());
}

// After which a line's reads end the program.
unsigned long most_reads() {
  static const unsigned long most = [] {
    const char* const text = std::getenv("DEVTRACE_SIM_UNKNOWN_READS");
    const unsigned long wanted = text ? std::strtoul(text, nullptr, 10) : 0;
    return wanted ? wanted : kMostUnknownReads;
  }();
  return most;
}

std::string at(const std::string& line) {
  return line.empty() ? line : line + ": ";
}

void say_once(bool may_take_gil) {
  static std::atomic<bool> said{false};
  if (said.exchange(true)) return;
  std::fprintf(stderr,
               "devtrace: %sthe host reads what depends on values that are not computed (--values small): numbers of "
               "floating point are zero, and what is chosen by them is the same each time\n",
               at(program_line(may_take_gil)).c_str());
  end_if_strict();
}

// Whether this line has read as often as a program may.
bool is_too_often(const std::string& line) {
  static std::mutex mutex;
  static auto* const reads = new std::map<std::string, unsigned long>;
  const std::lock_guard lock(mutex);
  return ((*reads)[line] += kEach) >= most_reads();
}

}  // namespace

Source unknown_source() {
  static const Source source = source_named("what --values small leaves");
  return source;
}

void unknown_is_left() {
  if (g_left.fetch_add(1, std::memory_order_relaxed)) return;
  if (const std::string* const why = why_large_is_left())
    std::fprintf(stderr,
                 "devtrace: %sthe host has no room for all values: %s. From here on tensors of %zu MiB or more are not "
                 "computed and take none of it, as with --values small, which is quicker from the start (--values all: "
                 "all are computed, or the program ends)\n",
                 at(program_line(true)).c_str(), why->c_str(), large_from() >> 20);
  g_pid = getpid();
  std::atexit(say_left);
}

unsigned long left_as_unknown() {
  return g_left.load(std::memory_order_relaxed);
}

void unknown_is_read(bool may_take_gil) {
  say_once(may_take_gil);
  static std::atomic<unsigned long> all{0};
  if (all.fetch_add(1, std::memory_order_relaxed) % kEach != kEach - 1) return;
  const std::string line = program_line(may_take_gil);
  if (!is_too_often(line)) return;
  std::fprintf(stderr,
               "devtrace: %svalues that are not computed (--values small) were read here %lu times. A loop that waits "
               "for another one would not end (DEVTRACE_SIM_UNKNOWN_READS=N sets another limit)\n",
               at(line).c_str(), most_reads());
  end_program("--values small");
}

}  // namespace devtrace::simulate::values
