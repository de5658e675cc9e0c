// The verdict: which of the known causes the evidence shows. To add one: a file in rules/, its line in rules.h, its row
// here.
#include "report/verdict/verdict.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "common/format.h"
#include "common/python_scan.h"
#include "common/text.h"
#include "finding/fields.h"
#include "report/verdict/edits/device_edits.h"
#include "report/verdict/edits/earlier_line.h"
#include "report/verdict/rules.h"
#include "report/verdict/source/source_line.h"

namespace devtrace::report::verdict {
namespace {

using Rule = std::optional<Cause> (*)(const Evidence&);
using Rules = std::span<const Rule>;

// What PyTorch's or CUDA's own code was doing, which frames and records tell: where one of these is sure, no other is
// asked. In order of how particular they are.
constexpr Rule kByOperation[] = {
    rules::host_memory,               // a kernel was given memory of the host
    rules::duplicate_device,          // ranks that came with one device
    rules::different_collectives,     // ranks that ask for different things
    rules::rank_missing,              // … and that others wait for
    rules::collective_elsewhere,      // a tensor on another device than the rank's process group
    rules::generator,                 // a CPU generator for CUDA random numbers, or the other way round
    rules::wanted_on_cpu,             // an argument that only the CPU may have
    rules::torch_load,                // a checkpoint of a device that is not there
    rules::state_of_a_file,           // … or of another one than the program works on
    rules::read_to_several_devices,   // … or to those from which its parts were saved
    rules::on_meta,                   // a tensor without memory
    rules::missing_device,            // a number of a device that is not there
    rules::events_of_two_devices,     // their times cannot be compared
    rules::declared_access,           // a note
    rules::stream_elsewhere,          // CUDA refused a launch for its stream
    rules::handle_elsewhere,          // of cuBLAS, cuDNN, …: a handle of another device
    rules::missing_set_device,        // C++: nothing made the right device current
    rules::invalid_access,            // a kernel used memory that is nobody's
    rules::unset_variable,            // C++: a variable that has a value on another device alone
    rules::uninitialized_read,        // C++: memory that nothing has written
    rules::shared_memory_race,        // C++: threads of a block with no barrier between them
    rules::cpp_state_not_registered,  // LibTorch: what a module's constructor keeps and to() does not know of
    rules::cpp_operand_elsewhere,     // LibTorch: what a line gives to an operator lies on two devices
    rules::unguarded_kernel,          // findings at a launch: everything is elsewhere
    rules::misstated_copy,            // findings at a copy
    rules::gradient_elsewhere,        // what a node of autograd's graph gave
    rules::optimizer_state,           // the refusing code is an optimizer's
    rules::data_parallel,             // … a replica of nn.DataParallel
    rules::kept_from_before,          // what a parameter was before it was moved
    rules::inter_process,             // a tensor of another process
    rules::tied_weights,              // one parameter of two modules on different devices
};

// What has become of an operand before, which its history suggests.
constexpr Rule kByHistory[] = {
    rules::discarded_move,          // x.to(device) as a statement: nobody keeps the copy
    rules::kept_device,             // a device that an object keeps, chosen before
    rules::cached_state_elsewhere,  // a cache was filled on one device and is met on another
    rules::state_not_registered,    // a module's tensor that .to() does not know of
    rules::left_in_a_container,     // … or a batch that moves its fields has left it
    rules::put_where_no_model_is,   // by a function whose model and data are on the CPU
    rules::created_without_device,  // torch.zeros(…) and the like where the work goes on elsewhere
    rules::by_the_current_device,   // made, or brought, while another device was current
    rules::module_split,      // parameters of one model on several devices, and nothing moves what passes between them
    rules::input_not_moved,   // what the caller gives to a model, or a label, stayed behind
    rules::left_of_one_line,  // of what one line made, another one was brought to where they meet
    rules::default_device,    // "cuda" means the current device, not the one where the data is
    rules::left_beside_a_move,  // the function moved the one, and not the other
    rules::taken_to_the_cpu,    // by a line of the program's, and not brought back
    rules::unchecked_kernel,    // at a launch: nothing of the above, and one of the kernel's operands is elsewhere
};

// Where none of them knows: by what kind of tensor meets what kind.
constexpr Rule kByKind[] = {
    rules::device_of_its_class,             // what an object takes that is told no device
    rules::state_of_two_models,             // registered tensors, or what was computed from them
    rules::made_for_the_cpu,                // by a line that says so
    rules::made_beside_one_that_says,       // by a function that says the device of the other one
    rules::made_by_a_call_without_tensors,  // on the CPU, by a function that the failing one called
    rules::kept_by_an_object,               // what an object has kept meets what is computed now
    rules::made_inside_without_state,       // on the CPU, inside a model of which nothing is there
    rules::taken_to_be_kept,                // a line took it away, an object has kept it, and gives it
    rules::in_torchscript,                  // code that was traced or scripted
    rules::results_apart,                   // of two modules
    rules::index_of_cpu_table,              // what it is asked for was brought to a GPU too early
    rules::data_beside_result,              // what a module computed, and data that none did
    rules::owned_by_an_object,              // whoever made it
    rules::made_on_the_default_device,
    rules::computed_by_an_object,
    rules::answered_from_before,  // a call in the line gave what was there before
    rules::made_of_what_says_no_device,
    rules::made_without_elements,  // a placeholder that something is put behind
    rules::loaded,                 // where a file says, or map_location
    rules::given_by_a_call_in_the_line,
    rules::beside_what_is_kept,  // on the CPU, as an attribute is, and nothing else there
    rules::never_moved,          // from the CPU, by nobody who was seen
};

constexpr std::string_view word(Confidence confidence) {
  return confidence == Confidence::high ? "high" : confidence == Confidence::medium ? "medium" : "low";
}

// Who made it and who moved it; nothing when neither was seen.
std::string history(const Operand& operand) {
  const std::string made = at(operand.created.line()), moved = at(operand.moved.line());
  if (made.empty() && moved.empty()) return {};
  std::string words = " " + operand.name;
  if (!made.empty()) words += fmt::format(" was made at {}", made);
  if (!moved.empty())
    words += fmt::format("{} moved from {} to {} at {}", made.empty() ? " was" : " and", operand.moved.from,
                         operand.device, moved);
  return words + (moved.empty() ? " and never moved." : ".");
}

Cause unknown(const Evidence& evidence) {
  const std::string operands = who_is_where(evidence.finding);
  std::string because = operands.empty() ? "The operands could not be named, so the cause is not known."
                                         : fmt::format("It is known where they are ({}), not why.", operands);
  for (const Operand& operand : evidence.operands) because += history(operand);
  return {"unknown", Confidence::low, std::move(because), use_site(evidence)};
}

// Of a statement over several lines the one that the edit changes, where it is one, and reads as one.
void narrow(finding::Edit& edit, std::string_view statement) {
  const auto lines_of = [](std::string_view text) {
    std::vector<std::string_view> lines;
    for (size_t begin = 0; begin <= text.size(); begin += lines.back().size() + 1)
      lines.push_back(text.substr(begin, text.find('\n', begin) - begin));
    return lines;
  };
  const std::string before = dedented(statement);
  const auto old = lines_of(before), now = lines_of(edit.fix);
  if (old.size() < 2 || old.size() != now.size()) return;
  const size_t at = static_cast<size_t>(std::mismatch(old.begin(), old.end(), now.begin()).first - old.begin());
  if (at == old.size() || !std::equal(old.begin() + at + 1, old.end(), now.begin() + at + 1)) return;
  if (at == 0 || !Scan(old[at]).balanced || !Scan(now[at]).balanced) return;
  edit.line += static_cast<int64_t>(at);
  edit.fix = trimmed(now[at]);
}

// The statements that the finding shows and an edit may be of.
void narrow(const Finding& finding, finding::Edit& edit) {
  const int64_t line = edit.line;
  finding::each_frame(finding, [&](const Frame& frame) {
    if (frame.file != edit.file || edit.line != line) return;
    if (frame.line == line) narrow(edit, frame.source);
    for (const auto& [number, text] : statements_around(frame))
      if (number == line && edit.line == line) narrow(edit, text);
  });
}

finding::Cause as_told(const Finding& finding, Cause cause) {
  finding::Cause out;
  out.category = cause.category;
  out.confidence = word(cause.confidence);
  out.because = std::move(cause.because);
  if (cause.fix) {
    finding::Edit edit{std::move(cause.fix->file), cause.fix->line, std::move(cause.fix->code)};
    narrow(finding, edit);
    out.fix = std::move(edit.fix);
    out.file = std::move(edit.file);
    out.line = edit.line;
    out.also = std::move(cause.fix->also);
    for (finding::Edit& each : out.also) narrow(finding, each);
    out.repairs = cause.fix->repairs == Repairs::cause ? "cause" : "line";
  }
  return out;
}

// A rule that names the line to change has found where it began, if it does not guess.
bool found_where(const Cause& cause) {
  return cause.fix && cause.fix->repairs == Repairs::cause && cause.confidence > Confidence::low;
}

bool change_one_line(const Cause& one, const Cause& other) {
  return one.fix && other.fix && one.fix->file == other.fix->file && one.fix->line == other.fix->line;
}

// One that has no line, or only makes the failing one run, has seen what it looks like, and may be surer of that.
bool knows_more(const Cause& one, const Cause& other) {
  const bool found = found_where(one);
  return found != found_where(other) && !change_one_line(one, other) ? found : one.confidence > other.confidence;
}

// Would another one change another line, or is the one that both would change only where the two meet? Then the
// evidence does not tell them apart.
bool is_rival(const Cause& one, const Cause& other) {
  return other.confidence > Confidence::low && other.category != one.category && other.fix &&
         !(found_where(one) && change_one_line(one, other));
}

void ask(Rules rules, const Evidence& evidence, std::vector<Cause>& answers) {
  for (const Rule rule : rules)
    if (auto cause = rule(evidence)) answers.push_back(std::move(*cause));
}

// The answer that knows most, the first of several. It is sure where no other one contradicts it.
std::optional<Cause> best_of(std::vector<Cause> answers) {
  if (answers.empty()) return std::nullopt;
  Cause* best = &answers.front();
  for (Cause& each : answers)
    if (knows_more(each, *best)) best = &each;
  if (std::ranges::any_of(answers, [&](const Cause& each) { return is_rival(*best, each); }))
    best->confidence = std::min(best->confidence, Confidence::medium);
  return std::move(*best);
}

std::optional<Cause> by_rules(const Evidence& evidence) {
  std::vector<Cause> answers;
  ask(kByOperation, evidence, answers);
  for (Cause& each : answers)
    if (each.confidence == Confidence::high) return std::move(each);
  ask(kByHistory, evidence, answers);
  return best_of(std::move(answers));
}

std::optional<Cause> by_kind(const Evidence& evidence) {
  std::vector<Cause> answers;
  ask(kByKind, evidence, answers);
  return best_of(std::move(answers));
}

// Does the edit move all of the container that has both in its line: `model({key: value.to(d) for key, value in
// batch.items()})`?
bool moves_with(const Evidence& evidence, const Fix& fix, const Operand& source, const Operand& other) {
  for (size_t frame = 0; frame < evidence.stack.size(); ++frame) {
    const std::string_view container = container_of(source.name_in(frame));
    if (evidence.stack[frame].file == fix.file && evidence.stack[frame].line == fix.line && !container.empty() &&
        container == container_of(other.name_in(frame)) &&
        fix.code.find(fmt::format(" in {}.items()", container)) != std::string::npos)
      return true;
  }
  return false;
}

// Does the edit move all that the operand was computed from on its device, whose place something of it has? A change of
// one of several leaves the others where they are.
bool is_made_of_all(const Evidence& evidence, const Evidence& traced, const Fix& fix) {
  for (size_t i = 0; i < evidence.operands.size(); ++i) {
    const Operand &operand = evidence.operands[i], &source = traced.operands[i];
    const auto there = [&](const Operand& each) { return each.device == operand.device; };
    const auto left = [&](const Operand& each) {
      return there(each) && each.name != source.name && !moves_with(evidence, fix, source, each);
    };
    if (source.name != operand.name && std::ranges::count_if(operand.computed_from, there) > 1 &&
        std::ranges::any_of(operand.computed_from, left))
      return false;
  }
  return true;
}

// Is it a help that the line runs? A replica's line is every replica's; and what was left on the CPU would take the
// work there.
bool may_meet_anywhere(const Evidence& evidence, const Cause& cause) {
  return cause.category != "data-parallel" &&
         std::none_of(evidence.operands.begin(), evidence.operands.end(),
                      [](const Operand& it) { return it.device == "meta" || (it.on_cpu() && it.is_of_state()); });
}

// The rules, asked about what the operands were computed from: never sure, for a value may have been replaced since.
std::optional<Cause> by_sources(Rule rules, const Evidence& evidence) {
  for (const Evidence& traced : evidence.traced()) {
    auto cause = rules(traced);
    if (!cause) continue;
    cause->confidence = std::min(cause->confidence, Confidence::medium);
    cause->because = traced.computed + cause->because;
    const bool whole =
        cause->fix && cause->fix->repairs == Repairs::cause && is_made_of_all(evidence, traced, *cause->fix);
    if (!whole && (!cause->fix || may_meet_anywhere(evidence, *cause)))
      if (auto fix = use_site(evidence)) cause->fix = std::move(fix);
    return cause;
  }
  return std::nullopt;
}

// The line that a fix changes, as a step of an operand's has it.
std::string_view source_before(const Evidence& evidence, const Fix& fix) {
  for (const Operand& operand : evidence.operands)
    for (const finding::Step& step : operand.lineage)
      if (step.line.file == fix.file && step.line.line == fix.line) return step.line.source;
  return {};
}

// "cuda:1" is another device on the next machine, and in the next replica. Where the program has written it, it stays.
bool writes_number(const Evidence& evidence, const Fix& fix) {
  constexpr std::string_view kNumber = "\"cuda:";
  return fix.code.find(kNumber) != fix.code.npos &&
         source_before(evidence, fix).find(kNumber) == std::string_view::npos;
}

// Of a model that is on the GPU but for this: what it has there comes to where it is met, for this line.
std::optional<Fix> bring_state(const Evidence& evidence) {
  const auto pair = evidence.pair([](const Operand& it) { return it.on_cpu() && it.is_of_state(); },
                                  [](const Operand& other) { return !other.on_cpu() && !other.is_of_state(); });
  auto fix = pair ? move_where_named(evidence, *pair.it, *pair.other) : std::nullopt;
  return fix && !writes_number(evidence, *fix) ? std::move(fix) : std::nullopt;
}

// What the failing call itself was given, moved by its own line to where the model is not.
std::optional<Fix> redirect_a_move(const Evidence& evidence) {
  const auto pair = evidence.pair([](const Operand& it) { return !it.is_state() && it.moved.known(); },
                                  [](const Operand& other) { return other.is_state() && !other.on_cpu(); });
  return pair ? redirect_where_it_runs(evidence, *pair.it, *pair.other) : std::nullopt;
}

// The line that made a model's tensor on the CPU after the model was constructed, as one that reads a file does. That
// is to change, though to what is not known.
std::optional<Fix> line_that_made_state(const Evidence& evidence) {
  for (const Operand& it : evidence.operands) {
    if (!it.is_state() || !it.on_cpu() || it.moved.known() || in_a_constructor(it.created.stack)) continue;
    const Frame* const line = it.created.line();
    if (line && line->project && line->function != "<module>") return repair_of(*line, {});
  }
  return std::nullopt;
}

// The line that took a model's tensor away from where what it meets is. That is to change, though to what is not known.
std::optional<Fix> line_that_took_it(const Evidence& evidence) {
  const auto pair = evidence.pair([](const Operand& it) { return it.is_state() && it.moved.known(); },
                                  [](const Operand& other) { return !other.on_cpu(); });
  if (!pair || pair.it->moved.from != pair.other->device) return std::nullopt;
  const Frame* const line = pair.it->moved.line();
  return line && line->project ? std::optional(repair_of(*line, {})) : std::nullopt;
}

// Of a view of a model's state that was left on the CPU: where the variable got it.
std::optional<Fix> move_where_bound(const Evidence& evidence) {
  const auto pair = evidence.pair([](const Operand& it) { return it.on_cpu() && it.is_of_state() && !it.is_state(); },
                                  [](const Operand& other) { return !other.on_cpu(); });
  if (!pair) return std::nullopt;
  for (const finding::Step& step : pair.it->lineage) {
    const std::string_view device = expression_of(step, pair.other->device);
    const auto target = step.what == "assigned" ? assigned_name(step.line.source) : std::nullopt;
    if (device.empty() || !target || pair.it->name != *target) continue;
    if (auto code = move_value(step.line.source, device)) return line_fix(step.line, std::move(*code));
  }
  return std::nullopt;
}

// `x = read(file).to(self.device)` above `x = resized(x)`, which the failing line computes with: it goes to where the
// model is.
std::optional<Fix> redirect_above(const Evidence& evidence) {
  const auto own = innermost_project(evidence.stack);
  const auto pair = evidence.pair([](const Operand& it) { return !it.is_of_state() && !it.on_cpu(); },
                                  [](const Operand& other) { return other.is_state() && !other.on_cpu(); });
  if (!own || !pair) return std::nullopt;
  const std::string device = device_expression(evidence, *own, *pair.other);
  constexpr std::string_view kNext = "next(";
  const std::string_view root =
      variable_of(std::string_view(device).substr(device.starts_with(kNext) ? kNext.size() : 0));
  std::vector<std::string_view> names = {pair.it->name_in(*own)};
  for (const Operand& source : pair.it->computed_from)
    if (source.device == pair.it->device) names.push_back(source.name_in(*own));
  for (const std::string_view name : names) {
    if (!is_identifier(name) || !is_identifier(root)) continue;
    auto line = assigned_above(evidence.stack[*own], name);
    while (line && !redirect_move(line->source, device) && reads(line->source, name) > 0)
      line = assigned_above(Frame(*line), name);
    auto code = line ? redirect_move(line->source, device) : std::nullopt;
    if (code && (root == "self" || bound_above(*line, root))) return repair_of(*line, std::move(*code));
  }
  return std::nullopt;
}

// The failing line, where it does not show what lies on the CPU: what it calls has made that, as a function of
// TorchScript's whose lines no frame tells.
std::optional<Fix> line_that_hides(const Evidence& evidence) {
  const auto own = innermost_project(evidence.stack);
  const bool hidden = std::any_of(evidence.operands.begin(), evidence.operands.end(), [](const Operand& it) {
    return it.on_cpu() && it.names.empty() && it.expression.empty() && !it.is_of_state();
  });
  return own && hidden && evidence.kind == "refused-op" ? std::optional(repair_of(evidence.stack[*own], {}))
                                                        : std::nullopt;
}

// What an operand, or a tensor that one was computed from, has passed in the line that the fix changes: the step of
// that kind, and whose it is. Null: none has.
struct Passed {
  const Operand* it = nullptr;
  const finding::Step* step = nullptr;
};
template <class All>
Passed passed_there(const All& operands, const Fix& fix, std::string_view what) {
  for (const Operand& it : operands) {
    for (const finding::Step& step : it.lineage)
      if (step.what == what && step.line.file == fix.file && step.line.line == fix.line) return {&it, &step};
    if (const Passed found = passed_there(it.computed_from, fix, what); found.step) return found;
  }
  return {};
}

// The line of a function's that the fix changes, where it makes a tensor and says no device.
const Frame* maker_changed_by(const Evidence& evidence, const Fix& fix) {
  const finding::Step* step = passed_there(evidence.operands, fix, "made").step;
  if (!step) step = passed_there(evidence.operands, fix, "appended").step;
  if (!step || step->line.function == "<module>" || !leaves_device_out(step->line.source)) return nullptr;
  return &step->line;
}

// No rule knows, and what repairs it is to move what a line constructed on the CPU.
void name_the_constructor(const Evidence& evidence, Cause& cause) {
  const bool plain =
      cause.category == "unknown" || (cause.category == "input-not-moved" && cause.confidence == Confidence::low);
  if (!plain || !cause.fix || cause.fix->repairs != Repairs::cause) return;
  const auto [it, step] = passed_there(evidence.operands, *cause.fix, "constructed");
  if (!step) return;
  cause.category = "created-without-device";
  cause.because =
      fmt::format("{} is of {}, which {} constructs on the CPU.", with_place(*it), step->call, at(&step->line));
}

// Nothing but that it was never moved was seen, or that a module was constructed with it. What repairs that is the
// device that a line has not said.
void name_the_maker(const Evidence& evidence, Cause& cause) {
  const bool plain = cause.category == "input-not-moved" || cause.category == "unknown" ||
                     cause.category == "module-split-or-hook-missing";
  if (!plain || !cause.fix || cause.fix->repairs != Repairs::cause) return;
  const Frame* const made = maker_changed_by(evidence, *cause.fix);
  if (!made) return;
  // What was surely left there may as well be called made there.
  if (cause.confidence == Confidence::high) {
    cause.confidence = Confidence::medium;
    return;
  }
  const Operand* const it = passed_there(evidence.operands, *cause.fix, "made").it;
  if (it && rules::is_given_data(evidence, *it)) return;
  cause.category = "created-without-device";
  cause.because += fmt::format(" It began at {}, which says no device.", at(made));
}

// … or the device that a call of the program's has left to the function that it calls.
void name_the_default(const Evidence& evidence, Cause& cause) {
  const bool plain = cause.category == "input-not-moved" || cause.category == "unknown" ||
                     cause.category == "module-split-or-hook-missing";
  if (!plain || cause.confidence == Confidence::high || !cause.fix || cause.fix->repairs != Repairs::cause) return;
  const auto [it, step] = passed_there(evidence.operands, *cause.fix, "defaulted");
  if (!step || (it->is_state() && cause.confidence != Confidence::low)) return;
  cause.category = "default-or-current-device";
  cause.because = fmt::format("{} lies where {} puts it that is told no {}: {} gives it none.", with_place(*it),
                              step->call, step->parameter, at(&step->line));
}

// When a further fix is looked for.
bool without_fix(const Evidence&, const Cause& cause) {
  return !cause.fix;
}
bool by_number(const Evidence& evidence, const Cause& cause) {
  return cause.fix && writes_number(evidence, *cause.fix);
}
bool without_or_by_number(const Evidence& evidence, const Cause& cause) {
  return !cause.fix || by_number(evidence, cause);
}
bool only_runs(const Evidence& evidence, const Cause& cause) {
  return !cause.fix || (cause.fix->repairs == Repairs::line && !in_failing_library(evidence, *cause.fix));
}
bool only_its_line_runs(const Evidence& evidence, const Cause& cause) {
  const auto own = innermost_project(evidence.stack);
  return only_runs(evidence, cause) && (!cause.fix || (own && cause.fix->file == evidence.stack[*own].file &&
                                                       cause.fix->line == evidence.stack[*own].line));
}
bool without_fix_of_a_known_cause(const Evidence&, const Cause& cause) {
  return !cause.fix && cause.category != "unknown";
}
bool without_fix_and_may_meet(const Evidence& evidence, const Cause& cause) {
  return !cause.fix && may_meet_anywhere(evidence, cause);
}

// Where a rule has no fix, or a lesser one: who is asked for another, in this order. A later answer replaces an earlier
// one.
struct FixSource {
  bool (*wanted)(const Evidence&, const Cause&);
  std::optional<Fix> (*find)(const Evidence&);
  bool in_words = false;  // an answer that writes a device's number does not count
};
constexpr FixSource kFixSources[] = {
    {only_runs, fix_at_origin},
    {only_runs, move_view_where_constructed},
    {only_its_line_runs, move_where_given, true},
    {without_or_by_number, move_where_constructed},
    {by_number, fix_at_origin, true},
    {by_number, move_where_called},
    {without_fix_and_may_meet, use_site, true},
    {without_fix, redirect_above},
    {without_fix, move_where_bound},
    {without_fix, move_expression_given},
    {without_fix, redirect_a_move},
    {without_fix, bring_state},
    {without_fix_of_a_known_cause, line_that_made_state},
    {without_fix, move_part_where_called},
    {without_fix, say_other_words},
    {without_fix, line_that_took_it},
    {without_fix, line_that_hides},
};

// The same with every line that where its statement begins: there an edit of the statement stands. Nothing where all
// do.
std::optional<Finding> from_first_lines(const Finding& finding) {
  bool any = false;
  finding::each_frame(finding, [&](const Frame& frame) { any = any || frame.source_line > 0; });
  if (!any) return std::nullopt;
  Finding told = finding;
  finding::each_frame(told, [](Frame& frame) {
    if (frame.source_line > 0) frame.line = frame.source_line;
  });
  return told;
}

}  // namespace

finding::Cause cause_of(const Finding& finding) noexcept try {
  const auto told = from_first_lines(finding);
  const Evidence evidence(told ? *told : finding);
  std::optional<Cause> best = by_rules(evidence);
  if (!best) best = by_sources(by_rules, evidence);
  if (!best) best = by_kind(evidence);
  if (!best) best = by_sources(by_kind, evidence);
  Cause cause = best ? std::move(*best) : unknown(evidence);
  for (const FixSource& source : kFixSources) {
    if (!source.wanted(evidence, cause)) continue;
    auto fix = source.find(evidence);
    if (fix && !(source.in_words && writes_number(evidence, *fix))) cause.fix = std::move(fix);
  }
  // Edits are written in PyTorch's words.
  const bool tensors =
      std::all_of(evidence.operands.begin(), evidence.operands.end(), [](const Operand& it) { return it.is_tensor(); });
  if (!tensors) cause.fix.reset();
  name_the_maker(evidence, cause);
  name_the_constructor(evidence, cause);
  name_the_default(evidence, cause);
  if (cause.fix) add_siblings(evidence, *cause.fix);
  if (cause.fix) add_lines_near(evidence, *cause.fix);
  if (cause.fix) add_refused_next(evidence, *cause.fix);
  return as_told(evidence.finding, std::move(cause));
} catch (...) {
  return {};
}

}  // namespace devtrace::report::verdict
