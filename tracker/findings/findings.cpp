#include "tracker/findings/findings.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "report/base/format.h"
#include "report/log/suppressions.h"
#include "report/report.h"
#include "tracker/base/assert.h"
#include "tracker/base/files.h"
#include "tracker/base/message.h"
#include "tracker/base/options.h"
#include "tracker/base/process_start.h"
#include "tracker/base/spinlock.h"
#include "tracker/base/thread_state.h"
#include "tracker/base/undisturbed.h"
#include "tracker/findings/copy_record.h"
#include "tracker/findings/launch_record.h"
#include "tracker/findings/library_record.h"
#include "tracker/findings/refusal_record.h"
#include "tracker/log/log.h"
#include "tracker/memory/peer_access.h"
#include "tracker/python/gil/kept_references.h"
#include "tracker/python/python_api.h"
#include "tracker/refusals/recent_messages.h"
#include "tracker/refusals/refusal_messages.h"
#include "tracker/stacks/stacks.h"

namespace devtrace::findings {
namespace {

using report::Json;

// A fault fails a run. A note and what the user's suppressions cover is counted and told in the log alone.
enum class Weight { fault, note, suppressed };

struct Known {
  int id = 0;
  std::string fingerprint;
  Weight weight = Weight::fault;
  uint64_t count = 1;
  uint64_t written = 1;  // the count that the log already states
};

// Everything under one lock: a finding is rare. Leaked: hooks run after static destructors.
struct State {
  std::unordered_map<std::string, Known> by_name;  // fingerprint and severity
  // Call site and refusal, before any evidence is gathered.
  struct Call {
    std::string name;  // empty: it came after max_findings, or is excused
    Weight weight = Weight::fault;
    bool excused = false;
  };
  std::unordered_map<uint64_t, Call> by_call;
  refusals::RecentMessages errors;  // that were looked at, findings or not
  int written = 0;
  int looked_at_in_vain = 0;  // after max_findings
  uint64_t dropped = 0;
  bool finished = false;
};
SpinLock lock;
State* state = nullptr;  // under lock
void (*rest)() = nullptr;
struct Occurrences {
  std::atomic<uint64_t> all{0};
  std::atomic<uint64_t> notes{0};
  std::atomic<uint64_t> suppressed{0};
  void add(Weight weight) {
    all.fetch_add(1, std::memory_order_relaxed);
    if (weight == Weight::note) notes.fetch_add(1, std::memory_order_relaxed);
    if (weight == Weight::suppressed) suppressed.fetch_add(1, std::memory_order_relaxed);
  }
  void forget() {
    for (auto* each : {&all, &notes, &suppressed}) each->store(0, std::memory_order_relaxed);
  }
};
Occurrences occurrences;
uint64_t faults_so_far() {
  const auto of = [](const std::atomic<uint64_t>& some) { return some.load(std::memory_order_relaxed); };
  return of(occurrences.all) - of(occurrences.notes) - of(occurrences.suppressed);
}

State& current() {
  DEVTRACE_ASSERT(lock.held());
  if (!state) state = new State;
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

void write_count(Known& known) {
  Json record{{"record", "count"}, {"id", known.id}, {"fingerprint", known.fingerprint}, {"count", known.count}};
  log::write(record);
  if (log::has_html()) log::write_html(report::html_record(report::json_line(record)));
  known.written = known.count;
}

void write_counts_and_rest(State& now) {
  for (auto& [name, known] : now.by_name)
    if (known.count != known.written) write_count(known);
  if (rest) rest();
}

// Counts a repetition; the log hears of it as the count doubles, so that a killed process loses little.
void count_again(Known& known) {
  ++known.count;
  DEVTRACE_ASSERT(known.written < known.count);
  if (known.count >= known.written * 2) write_count(known);
}

// After max_findings only so many calls more are looked at, to tell notes from faults; then they are counted as what
// there was before.
bool counted_unseen(State& now) {
  constexpr int kMostLookedAt = 100;
  if (options().max_findings <= 0 || now.written < options().max_findings) return false;
  if (now.looked_at_in_vain < kMostLookedAt) return ++now.looked_at_in_vain, false;
  occurrences.add(faults_so_far() > 0 ? Weight::fault : Weight::note);
  ++now.dropped;
  return true;
}

enum class Seen { never, counted, excused };

Seen seen_by_call(uint64_t key) {
  const std::lock_guard hold(lock);
  State& now = current();
  const auto found = now.by_call.find(key);
  if (key == 0 || found == now.by_call.end()) return counted_unseen(now) ? Seen::counted : Seen::never;
  const State::Call& call = found->second;
  if (call.excused) return Seen::excused;
  occurrences.add(call.weight);
  if (call.name.empty())
    ++now.dropped;
  else
    count_again(now.by_name.at(call.name));
  return Seen::counted;
}

// Code that is made anew for each call gives a new key each time: then all are forgotten now and then.
void remember(State& now, uint64_t key, State::Call call) {
  constexpr size_t kMostCalls = 1u << 16;
  if (key == 0) return;
  if (now.by_call.size() >= kMostCalls) now.by_call.clear();
  now.by_call.emplace(key, std::move(call));
}

void excuse(uint64_t key) {
  const std::lock_guard hold(lock);
  remember(current(), key, State::Call{.name = "", .excused = true});
}

bool is_note(const Json& record) {
  return record.value("severity", "") == "note";
}

// Read when the first finding needs them; complaints go to stderr then. Leaked, like all else here.
const report::Suppressions& suppressions() {
  static const report::Suppressions& read = *[] {
    auto* all = new report::Suppressions;
    std::string path = options().suppressions;
    if (path.empty()) return all;
    if (path[0] != '/') path = log::process().value("cwd", "") + "/" + path;
    errno = 0;
    if (auto found = report::read_suppressions(path))
      *all = std::move(*found);
    else
      say("suppressions=" + options().suppressions + ": cannot be read: " + std::strerror(errno) +
          "; nothing is suppressed");
    for (const std::string& complaint : all->complaints) say(complaint + "; the line was left out");
    const std::string today = report::date_of(process_start::now());
    for (const report::Suppression& each : all->entries)
      if (each.expired(today))
        say(all->path + ":" + std::to_string(each.line) + ": expired on " + each.expires + ": it suppresses no more");
    return all;
  }();
  return read;
}

// Which the finding is; a suppressed one gets the field that says by what. Its fingerprint stands in the record.
Weight weigh(Json& record) try {
  if (is_note(record)) return Weight::note;
  const report::Suppressions& all = suppressions();
  if (all.entries.empty()) return Weight::fault;
  const auto by = all.covering(record, report::date_of(process_start::now()));
  if (!by) return Weight::fault;
  const report::Suppression& entry = all.entries[*by];
  if (verbose())
    explain("finding %s: suppressed by %s:%d", record.value("fingerprint", "").c_str(), all.path.c_str(), entry.line);
  record["suppressed"] = {{"file", all.path}, {"line", entry.line}, {"reason", entry.reason}};
  return Weight::suppressed;
} catch (...) {
  return Weight::fault;
}

bool colour_wanted() {
  const char* term = std::getenv("TERM");
  return ::isatty(STDERR_FILENO) && !std::getenv("NO_COLOR") && term && std::strcmp(term, "dumb") != 0;
}

// One byte a finding that is a fault, for `devtrace run`, which waits for the whole process tree.
void tally() {
  if (const char* path = std::getenv("DEVTRACE_TALLY"); path && *path) files::append(path, "f");
}

void emit(Json& record, Weight weight) {
  log::write(record);
  if (weight == Weight::suppressed) return;
  if (options().html) log::write_html(report::html_finding(log::process(), record));
  if (weight == Weight::fault) tally();
}

// Holds none but its own lock, so that reports of several threads do not mix: nobody may be reading stderr.
SpinLock telling;
void tell(const Json& record) {
  const std::string text =
      report::text(log::process(), record, colour_wanted(), log::has_html() ? log::html_path() : "");
  const std::lock_guard hold(telling);
  files::write_stderr(text);
}

// Under the lock, so that ids follow the log's order. Calls nothing that takes the GIL. What is to be told; nothing for
// a repetition.
std::optional<Json> keep(Json record, uint64_t key, Weight weight) {
  const std::string fingerprint = record.value("fingerprint", "");
  const bool note = weight == Weight::note;
  // What was a note once is a fault when the program takes its permission back.
  const std::string name = fingerprint + (note ? " note" : weight == Weight::suppressed ? " suppressed" : "");
  Json cause = report::verdict::cause_of(record);
  const std::lock_guard hold(lock);
  State& now = current();
  if (options().dedupe) {
    if (const auto known = now.by_name.find(name); known != now.by_name.end()) {
      remember(now, key, State::Call{name, weight});
      count_again(known->second);
      if (verbose()) explain("finding %s: again, from another call: it is number %d", name.c_str(), known->second.id);
      return std::nullopt;
    }
  }
  if (options().max_findings > 0 && now.written >= options().max_findings) {
    if (now.dropped++ == 0)
      say("max_findings=" + std::to_string(options().max_findings) + " reached; further findings are only counted");
    if (options().dedupe) remember(now, key, State::Call{"", weight});
    if (verbose()) explain("finding %s: dropped, max_findings are written", name.c_str());
    return std::nullopt;
  }
  const int id = ++now.written;
  if (verbose()) explain("finding %s: number %d", name.c_str(), id);
  if (options().dedupe) {
    now.by_name.emplace(name, Known{id, fingerprint, weight, 1, 1});
    remember(now, key, State::Call{name, weight});
  }
  // The contract's order of fields: who reads the line with his eyes sees the name first.
  Json line;
  line["record"] = "finding";
  line["id"] = id;
  line["kind"] = record["kind"];
  line["severity"] = note ? "note" : "error";
  line["fingerprint"] = fingerprint;
  line.update(record);
  if (!cause.is_null()) line["cause"] = std::move(cause);
  line["count"] = 1;
  emit(line, weight);
  return line;
}

[[noreturn]] void halt() {
  const int code = options().error_exitcode ? options().error_exitcode : 1;
  finish(code);
  ::_exit(code);
}

// `record` is asked for only when the same call has not been told before. Nothing: it is no finding, and where the
// policy says so, that holds for all that comes by the same call. Is it a finding, or a repetition of one?
bool report(uint64_t key, const std::function<std::optional<Json>()>& record_of, bool policy = false) {
  if (const Seen seen = seen_by_call(key); seen != Seen::never) return seen == Seen::counted;
  std::optional<Json> record = record_of();
  if (!record) {
    if (policy) excuse(key);
    return false;
  }
  log::open();
  (*record)["fingerprint"] = report::fingerprint(log::process(), *record);
  const Weight weight = weigh(*record);
  occurrences.add(weight);
  const std::optional<Json> kept = keep(std::move(*record), key, weight);
  if (kept && options().text && weight != Weight::suppressed) tell(*kept);
  if (options().halt_on_error && weight == Weight::fault) halt();
  return true;
}

// How an error stands to those that were looked at before.
enum class Told { no, again, perhaps_in_other_words };

bool runs_in(const std::vector<stacks::PythonFrame>& frames, const stacks::PythonFrame& function) {
  return std::any_of(frames.begin(), frames.end(), [&](const stacks::PythonFrame& each) {
    return each.file == function.file && each.function == function.function;
  });
}

// PyTorch's own checks tell of nothing that was before. What is new is kept for those that tell of it.
Told told_before(const events::Refused& refusal) {
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
    if (refusal.raised != events::Raised::checked && errors.repeats(refusal.message, how)) return Told::again;
    if (handled) before = errors.raised_at(*handled);
    errors.add(refusal.message, in_python, here);
  }
  if (before == 0 || here == 0) return Told::no;
  const std::vector<stacks::PythonFrame> frames = stacks::resolve(here);
  return !frames.empty() && runs_in(stacks::resolve(before), frames[0]) ? Told::perhaps_in_other_words : Told::no;
}

void report_refusal(const events::Refused& refusal, python::KeptReferences& kept) {
  const refusals::Likelihood likelihood =
      refusal.method.empty() ? refusals::judge(refusal.message) : refusals::Likelihood::certain;
  if (likelihood == refusals::Likelihood::none) return;
  const bool checked = refusal.raised == events::Raised::checked;
  const auto parsed = [&] {
    auto message = refusals::parse(refusal.message, likelihood);
    if (!refusal.restated.empty()) message.known = refusals::known_refusal(refusal.restated);
    return message;
  };
  // Anybody's error, as often as he likes: evidence is gathered only where the message speaks of two devices, or is
  // known, and once for each call. What a check of PyTorch's says is read only where it is not a repetition.
  refusals::RefusalMessage message;
  if (!checked && !(message = parsed()).may_be_refusal()) return;
  if (const python::Api* const api = python::api(); api && python::holds_gil(*api)) kept.use(*api);
  const Told told = told_before(refusal);
  if (told == Told::again) return;
  message.rewords = told == Told::perhaps_in_other_words;
  uint64_t key;
  if (checked) {
    key = call_key({refusal.message.substr(0, 2048), refusal.function, refusal.file});
  } else {
    std::string devices = message.rewords ? "again " : "";
    for (const std::string& device : message.devices_named) devices += device + ' ';
    key = call_key({devices});
  }
  const auto record = [&] { return refusal_record(refusal, checked ? parsed() : message); };
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
  return occurrences.all.load(std::memory_order_relaxed);
}

uint64_t faults() {
  return faults_so_far();
}

uint64_t occurrences_of(uint64_t id) {
  const std::lock_guard hold(lock);
  if (!state) return 0;
  for (const auto& [name, known] : state->by_name)
    if (static_cast<uint64_t>(known.id) == id) return known.count;
  return 0;
}

void write_before_end(void (*write)()) {
  rest = write;
}

void flush() {
  if (!log::is_open()) return;
  const std::lock_guard hold(lock);
  write_counts_and_rest(current());
}

void finish(int exit_code) {
  if (!log::is_open()) return;
  const std::lock_guard hold(lock);
  State& now = current();
  if (now.finished) return;
  now.finished = true;
  write_counts_and_rest(now);
  Json record{{"record", "end"}, {"time", process_start::now()}, {"findings", count()}};
  if (const uint64_t notes = occurrences.notes.load(std::memory_order_relaxed)) record["notes"] = notes;
  if (const uint64_t some = occurrences.suppressed.load(std::memory_order_relaxed)) record["suppressed"] = some;
  record["dropped"] = now.dropped;
  if (exit_code >= 0) record["exit"] = exit_code;
  log::write(record);
  if (log::has_html()) log::write_html(report::html_record(report::json_line(record)));
}

void before_fork() {
  lock.lock();
  telling.lock();
}

void after_fork(bool child) {
  if (child) {
    state = nullptr;  // the parent's findings are the parent's
    occurrences.forget();
  }
  telling.unlock();
  lock.unlock();
}

}  // namespace devtrace::findings
