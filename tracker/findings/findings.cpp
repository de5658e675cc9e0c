#include "tracker/findings/findings.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <utility>
#include <vector>

#include "common/format.h"
#include "report/log/fingerprint.h"
#include "report/verdict/cpp/device.h"
#include "report/verdict/verdict.h"
#include "tracker/base/assert.h"
#include "tracker/base/message.h"
#include "tracker/base/options.h"
#include "tracker/base/process_start.h"
#include "tracker/base/run_isolated.h"
#include "tracker/base/spinlock.h"
#include "tracker/base/thread_state.h"
#include "tracker/evidence/source/source.h"
#include "tracker/findings/occurrences.h"
#include "tracker/findings/reporting.h"
#include "tracker/interface/platform.h"
#include "tracker/log/log.h"
#include "tracker/log/publish.h"
#include "tracker/python/python_api.h"
#include "tracker/stacks/stacks.h"

namespace devtrace::findings {
namespace {

using finding::Finding;

// Everything under one lock: a finding is rare. Leaked: hooks run after static destructors.
struct State {
  Occurrences occurrences;
  bool finished = false;
};
SpinLock lock;
State* state = nullptr;  // under lock
void (*exit_writer)() = nullptr;
Totals totals;

State& current() {
  DEVTRACE_ASSERT(lock.held());
  if (!state) state = new State{.occurrences{{options().max_findings, options().dedupe}, totals}};
  return *state;
}

constexpr size_t kMostCallers = 64;  // more than lie between a refusal and the Python frame that asked for it

// Under the lock.
void publish_counts(const std::vector<Occurrences::Count>& counts) {
  for (const auto& [id, fingerprint, count] : counts) log::publish::count(id, fingerprint, count);
}
void publish_due() {
  publish_counts(current().occurrences.take_due());
}

// Under the lock, so that ids follow the log's order. Calls nothing that takes the GIL. What is to be said on stderr;
// nothing for a repetition.
std::string publish(const Occurrences::Finding& finding, Finding& record) {
  using Outcome = Occurrences::Finding;
  publish_due();
  if (finding.outcome == Outcome::dropped && current().occurrences.dropped() == 1)
    warn("max_findings=" + std::to_string(options().max_findings) + " reached; further findings are only counted");
  if (verbose()) {
    constexpr const char* kOutcomes[] = {"", "again, from another call: it is ", "dropped, max_findings are written"};
    explain("finding %s: %s%s", record.fingerprint.c_str(), kOutcomes[finding.outcome],
            finding.id > 0 ? fmt::format("number {}", finding.id).c_str() : "");
  }
  if (finding.outcome != Outcome::added) return {};
  record.id = finding.id;
  record.count = 1;
  return log::publish::finding(record);
}

[[noreturn]] void halt() {
  const int code = options().error_exitcode ? options().error_exitcode : 1;
  finish(code);
  ::_exit(code);
}

// 0: the call cannot be told from others.
uint64_t call_key(std::initializer_list<std::string_view> parts) {
  const stacks::StackId stack = stacks::capture_python();
  void* callers[kMostCallers];
  const size_t count = stacks::capture_native(callers, kMostCallers);
  if (stack == 0 && count == 0) return 0;
  std::string text = std::to_string(stack);
  text.append(reinterpret_cast<const char*>(callers), count * sizeof *callers);
  for (std::string_view part : parts) (text += '\0') += part;
  const uint64_t key = std::hash<std::string>{}(text);
  return key == 0 ? 1 : key;
}

// Where evidence is gathered.
Stack stack_for_evidence() {
  constexpr int kKnowsItsStack = 14;
  const python::Api* const api = python::api();
  const std::string_view version = api ? api->Py_GetVersion() : "";
  return version.starts_with("3.") && std::atoi(version.data() + 2) >= kKnowsItsStack ? Stack::callers : Stack::ours;
}

}  // namespace

void run(const std::function<void()>& work) {
  run_isolated(stack_for_evidence(), work);
}

bool report_once(std::initializer_list<std::string_view> call, const std::function<std::optional<Finding>()>& find,
                 bool policy) {
  using Seen = Occurrences::Seen;
  const uint64_t key = call_key(call);
  {
    const std::lock_guard hold(lock);
    Occurrences& occurrences = current().occurrences;
    const Seen seen = occurrences.seen(key);
    publish_due();
    if (seen != Seen::never) return seen == Seen::counted;
  }
  std::optional<Finding> found = find();
  if (!found) {
    const std::lock_guard hold(lock);
    if (policy) current().occurrences.excuse(key);
    return false;
  }
  log::open();
  found->fingerprint = report::fingerprint(log::working_directory(), *found);
  report::verdict::read_sources_by(&evidence::lines_on_disk);
  found->cause = report::verdict::cause_of(*found);
  const Severity severity = classify(*found);
  std::string text;
  {
    const std::lock_guard hold(lock);
    Occurrences& occurrences = current().occurrences;
    const Occurrences::Finding outcome = occurrences.add(key, found->fingerprint, severity);
    text = publish(outcome, *found);
  }
  log::publish::print(text);
  if (options().halt_on_error && severity == Severity::fault) halt();
  return true;
}

Finding begin(const char* kind, finding::Facts facts, const std::vector<std::string>& devices) {
  Finding finding;
  finding.kind = kind;
  finding.time = process_start::now();
  finding.thread = thread_state::id();
  char name[17] = {};
  if (::prctl(PR_GET_NAME, name, 0, 0, 0) == 0) finding.thread_name = name;
  finding.current_device = current_device();
  finding.facts = std::move(facts);
  finding.devices.known = !devices.empty();
  for (const std::string& each : devices) {
    const bool is_one = each != "cuda" && !each.empty() && each != "unknown";
    if (is_one && std::ranges::find(finding.devices, each) == finding.devices.end()) finding.devices.push_back(each);
  }
  return finding;
}

std::string current_device() {
  const int device = platform().current_device ? platform().current_device() : -1;
  return device >= 0 ? Device::cuda(device).name() : "";
}

uint64_t count() {
  return totals.all();
}

uint64_t faults() {
  return totals.faults();
}

uint64_t occurrences_of(uint64_t id) {
  const std::lock_guard hold(lock);
  return state ? state->occurrences.count_of(id) : 0;
}

void set_exit_writer(void (*write)()) {
  exit_writer = write;
}

// Under the lock.
void write_counts_and_rest() {
  publish_counts(current().occurrences.take_unwritten());
  if (exit_writer) exit_writer();
}

void flush() {
  if (!log::is_open()) return;
  const std::lock_guard hold(lock);
  write_counts_and_rest();
}

void finish(int exit_code) {
  if (!log::is_open()) return;
  const std::lock_guard hold(lock);
  if (current().finished) return;
  current().finished = true;
  write_counts_and_rest();
  log::publish::write_end({totals.all(), totals.notes(), totals.suppressed(), current().occurrences.dropped()},
                          exit_code);
}

void before_fork() {
  lock.lock();
  log::publish::before_fork();
}

void after_fork(bool child) {
  if (child) {
    state = nullptr;  // the parent's findings are the parent's
    totals.forget();
  }
  log::publish::after_fork();
  lock.unlock();
}

}  // namespace devtrace::findings
