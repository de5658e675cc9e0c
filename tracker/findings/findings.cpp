#include "tracker/findings/findings.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <initializer_list>
#include <mutex>
#include <string>
#include <vector>

#include "finding/json.h"
#include "report/base/format.h"
#include "report/report.h"
#include "tracker/base/assert.h"
#include "tracker/base/message.h"
#include "tracker/base/options.h"
#include "tracker/base/spinlock.h"
#include "tracker/base/thread_state.h"
#include "tracker/base/undisturbed.h"
#include "tracker/findings/copy_record.h"
#include "tracker/findings/launch_record.h"
#include "tracker/findings/library_record.h"
#include "tracker/findings/occurrences.h"
#include "tracker/findings/publish.h"
#include "tracker/findings/refusal_record.h"
#include "tracker/log/log.h"
#include "tracker/memory/peer_access.h"
#include "tracker/python/gil/kept_references.h"
#include "tracker/python/python_api.h"
#include "tracker/refusals/classify.h"
#include "tracker/refusals/recent_messages.h"
#include "tracker/stacks/stacks.h"

namespace devtrace::findings {
namespace {

using refusals::Repetition;
using report::Json;

// Everything under one lock: a finding is rare. Leaked: hooks run after static destructors.
struct State {
  Occurrences occurrences;
  refusals::RecentMessages errors;  // that were looked at, findings or not
  bool finished = false;
};
SpinLock lock;
State* state = nullptr;  // under lock
void (*exit_writer)() = nullptr;
Totals totals;

State& current() {
  DEVTRACE_ASSERT(lock.held());
  if (!state) state = new State{.occurrences{{options().max_findings, options().dedupe}, totals}, .errors{}};
  return *state;
}

constexpr size_t kMostCallers = 64;  // more than lie between a refusal and the Python frame that asked for it

// What tells findings apart without looking at a single tensor: who called, by which native callers (two operations on
// one line differ in nothing else), and what else the kind of finding adds. 0: cannot be told.
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

void publish_due(const std::optional<Occurrences::Count>& due) {
  if (due) publish::count(*due);
}

Occurrences::Call::Seen seen(uint64_t key) {
  const std::lock_guard hold(lock);
  const Occurrences::Call call = current().occurrences.seen(key);
  publish_due(call.due);
  return call.seen;
}

void excuse(uint64_t key) {
  const std::lock_guard hold(lock);
  current().occurrences.excuse(key);
}

// The contract's order of fields: who reads the line with his eyes sees the name first.
Json as_written(int id, Severity severity, const Json& record, Json cause) {
  Json line;
  line["record"] = "finding";
  line["id"] = id;
  line["kind"] = record["kind"];
  line["severity"] = severity == Severity::note ? "note" : "error";
  line["fingerprint"] = record["fingerprint"];
  line.update(record);
  if (!cause.empty()) line["cause"] = std::move(cause);
  line["count"] = 1;
  return line;
}

// Under the lock, so that ids follow the log's order. Calls nothing that takes the GIL. What was written; nothing for
// a repetition.
std::optional<Json> deduplicate(uint64_t key, const Json& record, Severity severity) {
  using Finding = Occurrences::Finding;
  const std::string fingerprint = record.value("fingerprint", "");
  Json cause = finding::to_json(report::verdict::cause_of(finding::read(record)));
  const std::lock_guard hold(lock);
  Occurrences& occurrences = current().occurrences;
  const Finding finding = occurrences.add(key, fingerprint, severity);
  publish_due(finding.due);
  if (finding.outcome == Finding::dropped && occurrences.dropped() == 1)
    say("max_findings=" + std::to_string(options().max_findings) + " reached; further findings are only counted");
  if (verbose()) {
    constexpr const char* kOutcomes[] = {"", "again, from another call: it is ", "dropped, max_findings are written"};
    explain("finding %s: %s%s", fingerprint.c_str(), kOutcomes[finding.outcome],
            finding.id > 0 ? fmt::format("number {}", finding.id).c_str() : "");
  }
  if (finding.outcome != Finding::added) return std::nullopt;
  Json line = as_written(finding.id, severity, record, std::move(cause));
  publish::finding(line, severity);
  return line;
}

[[noreturn]] void halt() {
  const int code = options().error_exitcode ? options().error_exitcode : 1;
  finish(code);
  ::_exit(code);
}

// `record_of` is called only where the same call has not been told before. Nothing: it is no finding, and where the
// policy says so, that holds for all that comes by the same call. Is it a finding, or a repetition of one?
bool report(uint64_t key, const std::function<std::optional<Json>()>& record_of, bool policy = false) {
  using Call = Occurrences::Call;
  if (const Call::Seen before = seen(key); before != Call::never) return before == Call::counted;
  std::optional<Json> record = record_of();
  if (!record) {
    if (policy) excuse(key);
    return false;
  }
  log::open();
  (*record)["fingerprint"] = report::fingerprint(log::process(), *record);
  const Severity severity = classify(*record);
  const std::optional<Json> written = deduplicate(key, *record, severity);
  if (written && options().text && severity != Severity::suppressed) publish::print_report(*written);
  if (options().halt_on_error && severity == Severity::fault) halt();
  return true;
}

bool runs_in(const std::vector<stacks::PythonFrame>& frames, const stacks::PythonFrame& function) {
  return std::any_of(frames.begin(), frames.end(), [&](const stacks::PythonFrame& each) {
    return each.file == function.file && each.function == function.function;
  });
}

// PyTorch's own checks repeat nothing that was before. What is new is kept for what may repeat it.
Repetition repetition_of(const events::Refused& refusal) {
  using How = refusals::RecentMessages::How;
  const bool in_python = refusal.raised == events::Raised::in_python;
  const python::Api* api = in_python ? python::api() : nullptr;
  const std::optional<std::string> handled = api ? python::handled_exception(*api) : std::nullopt;
  const How how = !in_python ? How::thrown : handled ? How::while_handling : How::in_python;
  const stacks::StackId here = stacks::capture_python();
  stacks::StackId before = 0;
  {
    const std::lock_guard hold(lock);
    refusals::RecentMessages& errors = current().errors;
    if (refusal.raised != events::Raised::checked && errors.repeats(refusal.message, how)) return Repetition::same;
    if (handled) before = errors.raised_at(*handled);
    errors.add(refusal.message, in_python, here);
  }
  if (before == 0 || here == 0) return Repetition::none;
  const std::vector<stacks::PythonFrame> frames = stacks::resolve(here);
  return !frames.empty() && runs_in(stacks::resolve(before), frames[0]) ? Repetition::rephrased : Repetition::none;
}

void report_refusal(const events::Refused& refusal, python::KeptReferences& kept) {
  const refusals::RefusalMessage message = refusals::classify(refusal);
  if (message.likelihood == refusals::Likelihood::none) return;
  const bool checked = refusal.raised == events::Raised::checked;
  // Anybody's error, as often as he likes: evidence is gathered only where the message speaks of two devices, or is
  // known, and once for each call.
  if (!checked && !message.may_be_refusal()) return;
  if (const python::Api* const api = python::api(); api && python::holds_gil(*api)) kept.use(*api);
  const Repetition repetition = repetition_of(refusal);
  if (repetition == Repetition::same) return;
  uint64_t key;
  if (checked) {
    key = call_key({refusal.message.substr(0, 2048), refusal.function, refusal.file});
  } else {
    std::string devices = repetition == Repetition::rephrased ? "again " : "";
    for (const std::string& device : message.devices_named) devices += device + ' ';
    key = call_key({devices});
  }
  const auto record = [&] { return refusal_record(refusal, message, repetition); };
  if (!report(key, record, !checked)) return;
  const std::lock_guard hold(lock);
  current().errors.found(refusal.message);
}

void report_launch(const MisplacedLaunch& launch) {
  std::string pointers;
  for (const MisplacedLaunch::Pointer& pointer : launch.pointers)
    pointers += fmt::format("{}+{}:{}{} ", pointer.parameter, pointer.in_parameter, pointer.device.index,
                            memory::peer_access::declared(launch.device, pointer.device) ? "d" : "");
  if (launch.launch.stream_device >= 0) pointers += fmt::format("stream:{}", launch.launch.stream_device);
  report(
      call_key({launch.launch.kernel->name, launch.device.name(), pointers}), [&] { return launch_record(launch); },
      true);
}

void report_copy(const MisplacedCopy& copy) {
  std::string ends =
      fmt::format("{} {} {}", static_cast<int>(copy.copy.direction), copy.copy.to_device, copy.copy.from_device);
  for (const MisplacedCopy::End* end : {&copy.to, &copy.from})
    ends += fmt::format(" {}:{}:{}", end->owner.index, end->runs_into.index, end->wrong);
  report(call_key({copy.copy.function, ends}), [&]() -> std::optional<Json> { return copy_record(copy); });
}

void report_library_call(const MisplacedLibraryCall& misplaced) {
  std::string pointers = misplaced.refused ? "refused " : "";
  for (const MisplacedLibraryCall::Pointer& pointer : misplaced.pointers)
    pointers += fmt::format("{}:{}{} ", pointer.argument, pointer.device.index,
                            memory::peer_access::declared(misplaced.device, pointer.device) ? "d" : "");
  report(
      call_key({misplaced.call.function, misplaced.device.name(), pointers}), [&] { return library_record(misplaced); },
      true);
}

// Where evidence is gathered.
Stack stack_for_evidence() {
  constexpr int kKnowsItsStack = 14;
  const python::Api* const api = python::api();
  const std::string_view version = api ? api->Py_GetVersion() : "";
  return version.starts_with("3.") && std::atoi(version.data() + 2) >= kKnowsItsStack ? Stack::callers : Stack::ours;
}

}  // namespace

void report(const events::Refused& refusal) {
  python::KeptReferences kept;  // the program's `__del__` runs when nothing of ours does any more
  undisturbed(stack_for_evidence(), [&] { report_refusal(refusal, kept); });
}

void report(const MisplacedLaunch& launch) {
  undisturbed(stack_for_evidence(), [&] { report_launch(launch); });
}

void report(const MisplacedCopy& copy) {
  undisturbed(stack_for_evidence(), [&] { report_copy(copy); });
}

void report(const MisplacedLibraryCall& call) {
  undisturbed(stack_for_evidence(), [&] { report_library_call(call); });
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
  for (const Occurrences::Count& count : current().occurrences.take_unwritten()) publish::count(count);
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
  publish::end(totals, current().occurrences.dropped(), exit_code);
}

void before_fork() {
  lock.lock();
  publish::before_fork();
}

void after_fork(bool child) {
  if (child) {
    state = nullptr;  // the parent's findings are the parent's
    totals.forget();
  }
  publish::after_fork();
  lock.unlock();
}

}  // namespace devtrace::findings
