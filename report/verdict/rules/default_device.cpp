// `.cuda()` and "cuda" mean the current device of the thread, which is cuda:0 unless that thread set another.
#include <algorithm>

#include "common/format.h"
#include "common/text.h"
#include "report/verdict/edits/device_edits.h"
#include "report/verdict/edits/earlier_line.h"
#include "report/verdict/edits/step_edit.h"
#include "report/verdict/rules.h"
#include "report/verdict/source/source_line.h"
#include "report/verdict/source/statement_scan.h"

namespace devtrace::report::verdict::rules {
namespace {

constexpr std::string_view kDefaultDevice = "default-or-current-device";

// `torch.empty(n, device=device)` or `x.to(device)` below `device = "cuda" if asked else "cpu"`: the line that has
// given the variable a GPU without a number. Nothing where none above shows that.
std::optional<Frame> line_of_current_variable(const Frame& line) {
  auto said = keyword_argument(line.source, "device");
  if (!said) said = moved_to(line.source);
  if (!said || !is_identifier(*said)) return std::nullopt;
  const auto is_current = [](std::string_view value) {
    return value.find("\"cuda\"") != value.npos || value.find("'cuda'") != value.npos;
  };
  auto bound = assigned_above(line, *said);
  if (bound) return is_current(value_in(bound->source)) ? std::move(bound) : std::nullopt;
  // Or each branch of an `if` has given it one.
  const auto lines = statements_around(line);
  for (const auto& [number, text] : lines) {
    const bool above = number < line.line && in_one_function(lines, number, line.line);
    if (!above || assigned_name(trimmed(text)) != *said || !is_current(value_in(trimmed(text)))) continue;
    bound = line;
    bound->line = number;
    bound->source = dedented(text);
  }
  return bound;
}

// … saying the device of what the function was given, in the place of that.
std::optional<Fix> say_device_in_variable(const Operand& it, const Operand& other) {
  const Frame& line = *it.placed()->line();
  const auto bound = line_of_current_variable(line);
  for (const finding::Step& step : it.lineage) {
    const std::string_view device = expression_of(step, other.device);
    if (!bound || device.empty() || !step.line.same_line(line) || !bound_above(*bound, variable_of(device))) continue;
    if (auto code = replace_value(bound->source, device)) return repair_of(*bound, std::move(*code));
  }
  return std::nullopt;
}

// The line that named no number is the one to change, where it has words for the right device. A number is written only
// where nothing else helps: another machine may want another.
std::optional<Fix> fix_of(const Evidence& evidence, const Operand& it, const Operand& other) {
  if (auto fix = redirect_where_it_runs(evidence, it, other)) return fix;
  auto use = move_where_named(evidence, it, other);
  if (use && !names(*use, other) && in_failing_library(evidence, *use)) return use;
  if (auto fix = fix_at_origin(evidence)) return fix;
  auto origin = say_device_where_placed(evidence, it, other);
  if (origin && !names(*origin, other)) return origin;
  return origin && (!use || names(*use, other)) ? origin : use;
}

// Moved by a thread that never chose a device, and met in one that did: the choice holds for its own thread only.
std::optional<Cause> other_thread(const Evidence& evidence) {
  // The threads of nn.DataParallel choose their devices for the replicas, whose fault is another one.
  if (std::any_of(evidence.refusal.modules.begin(), evidence.refusal.modules.end(),
                  [](const auto& each) { return each.replica; }))
    return std::nullopt;
  Evidence::Pair pair;
  for (const Operand& it : evidence.operands)
    for (const Operand& other : evidence.operands)
      if (!pair && it.device != other.device && evidence.by_another_threads_default(it, other)) pair = {&it, &other};
  if (!pair) return std::nullopt;
  const Frame& line = *pair.it->placed()->line();
  const DeviceChoice& chosen = pair.other->placed()->choice;
  const auto project = innermost_project(chosen.stack);
  const std::string where = project ? " at " + at(&chosen.stack[*project]) : std::string();
  // The line may as well have named the device.
  const bool current = says_current_device(line.source);
  Cause cause{
      kDefaultDevice, current ? Confidence::high : Confidence::medium,
      fmt::format("{} was put on {} at {} by another thread, whose current device that is by default: {} was made "
                  "current{} for this thread only, where {} was put.",
                  pair.it->name, pair.it->device, at(&line), chosen.device, where, pair.other->name),
      std::nullopt};
  if (current) {
    if (auto code = redirect_move(line.source, expression_or_number(evidence, line, pair.other->device)))
      cause.fix = repair_of(line, std::move(*code));
  }
  if (!cause.fix) cause.fix = move_where_named(evidence, *pair.it, *pair.other);
  if (!cause.fix) cause.fix = use_site(evidence);
  return cause;
}

// It was where the work is, and a line that names no number has brought it away from there.
std::optional<Cause> taken_away(const Evidence& evidence) {
  for (const Operand& it : evidence.operands) {
    for (const Operand& other : evidence.operands) {
      if (it.is_state() || it.device == other.device || !evidence.taken_to_current_device(it, other)) continue;
      // What an element of a table or the answer of a call says is not known.
      const std::string& line = it.moved.line()->source;
      const bool read = says_current_device(line) || moved_to(line) || !it.device_from.says.empty();
      return Cause{kDefaultDevice, read ? Confidence::medium : Confidence::low,
                   fmt::format("{} was on {}, where the model and {} are, and {} brought it to {}, the device that is "
                               "current, which it names without a number, or not at all.",
                               it.name, it.moved.from, other.name, at(it.moved.line()), it.device),
                   fix_of(evidence, it, other)};
    }
  }
  return std::nullopt;
}

// `x + mask.cuda()` → `x + mask.to(x.device)`.
std::optional<Fix> say_device_in_line(const Evidence& evidence, const Operand& it, const Operand& other) {
  const auto own = innermost_project(evidence.stack);
  if (own == 0u) {
    const std::string device = device_expression(evidence, *own, other);
    auto part = redirect_move(it.expression, device);
    if (!part) part = give_device(it.expression, device);
    const Frame& line = evidence.stack[*own];
    auto code = part ? replace_expression(line.source, it.expression, *part) : std::nullopt;
    if (!code && part)
      code = redirect_move(line.source, device);  // `x.to("cuda") * n` is a part that no dot may follow
    if (code) return repair_of(line, std::move(*code));
  }
  return move_where_named(evidence, it, other);
}

// Made by a part of the failing line itself: `x + torch.zeros(n, device="cuda")`.
std::optional<Cause> made_in_the_line(const Evidence& evidence) {
  const auto pair = evidence.pair(
      [](const Operand& it) {
        const bool current =
            says_current_device(it.expression) || (it.device_from.says == "cuda" && makes_tensor(it.expression));
        return !it.placed() && !it.on_cpu() && !it.is_state() && current;
      },
      [](const Operand& other) { return !other.on_cpu(); });
  if (!pair) return std::nullopt;
  return Cause{kDefaultDevice, Confidence::medium,
               fmt::format("{} names a GPU without a number, which is the current device, {}; it meets {}.",
                           pair.it->expression, pair.it->device, with_place(*pair.other)),
               say_device_in_line(evidence, *pair.it, *pair.other)};
}

// Of `x.to("cuda:0")` where the text in quotes stands; nothing where the line does not write the device's number once.
std::optional<Span> written_number(const Frame& line, std::string_view device) {
  for (const char quote : {'"', '\''}) {
    const std::string wanted = fmt::format("{0}{1}{0}", quote, device);
    const size_t at = line.source.find(wanted);
    if (at != line.source.npos && line.source.find(wanted, at + 1) == line.source.npos)
      return Span{at, at + wanted.size()};
  }
  return std::nullopt;
}

// A function that was given what lies elsewhere has made it on a device whose number it writes.
std::optional<Cause> made_on_a_number(const Evidence& evidence) {
  const auto line_of = [&](const Operand& it) -> const Frame* {
    const Event* placed = it.placed();
    const Frame* line = placed ? placed->line() : nullptr;
    const auto own = innermost_project(evidence.stack);
    const bool here = own && evidence.made_under(it, *own) && line && line->file == evidence.stack[*own].file;
    return here && !it.is_of_state() && !it.on_cpu() && !computed_where_its_module_lies(it) &&
                   evidence.stack[*own].function != "<module>" && written_number(*line, it.device)
               ? line
               : nullptr;
  };
  const auto pair = evidence.pair([&](const Operand& it) { return line_of(it) != nullptr; },
                                  [&](const Operand& other) { return !other.on_cpu() && !line_of(other); });
  if (!pair) return std::nullopt;
  const Frame& line = *line_of(*pair.it);
  Cause cause{kDefaultDevice, Confidence::medium,
              fmt::format("{} was put on {} by {}, which writes that number, whatever the device of {} is.",
                          pair.it->name, pair.it->device, at(&line), with_place(*pair.other)),
              std::nullopt};
  for (const finding::Step& step : pair.it->lineage) {
    const std::string_view device = expression_of(step, pair.other->device);
    if (cause.fix || device.empty() || step.line.file != line.file || step.line.line != line.line) continue;
    cause.fix = repair_of(line, dedented(spliced(line.source, *written_number(line, pair.it->device), device)));
  }
  if (!cause.fix) cause.fix = fix_of(evidence, *pair.it, *pair.other);
  return cause;
}

// A call on the way to the line that made it has left the device to a parameter's default.
std::optional<Cause> left_to_a_default(const Evidence& evidence) {
  const auto step_of = [](const Operand& it) -> const finding::Step* {
    const auto step = std::find_if(it.lineage.begin(), it.lineage.end(),
                                   [](const finding::Step& each) { return each.what == "defaulted"; });
    if (step == it.lineage.end()) return nullptr;
    const bool cuda = step->otherwise.find("cuda") != step->otherwise.npos;
    const bool cpu = step->otherwise == "None" || step->otherwise.find("cpu") != step->otherwise.npos;
    // A module's constructor that is told no device makes what model.to() brings along, and so may one that another
    // line made like its tensors.
    const Frame* const made = it.created.line();
    const bool object = std::ranges::any_of(
        it.held_by, [](const Chain& chain) { return !chain.holders.empty() && chain.holders.back().kind == "object"; });
    if (step->otherwise == "None" && !it.is_state() && !object && made && constructs(it.created.stack, step->call) &&
        reads(made->source, step->parameter) == 0)
      return nullptr;
    // What the function puts in the place of None is not written in the call.
    const Event* placed = it.placed();
    const bool current = step->otherwise == "None" && placed && placed->choice.device == it.device;
    return (cuda && it.on_cpu()) || (cpu && !it.on_cpu() && !current) ? nullptr : &*step;
  };
  const auto pair = evidence.pair([&](const Operand& it) { return step_of(it) != nullptr; },
                                  [&](const Operand& other) { return !other.on_cpu() && !step_of(other); });
  if (!pair) return std::nullopt;
  auto fix = fix_at_origin(evidence);
  const finding::Step& step = *step_of(*pair.it);
  if (!fix) fix = pair.it->is_state() ? std::optional(repair_of(step.line, {})) : use_site(evidence);
  if (!fix) return std::nullopt;  // who has words for the device knows more
  return Cause{kDefaultDevice, Confidence::medium,
               fmt::format("{} was put on {} because {} leaves {} out in its call of {}, where it is {} by default. It "
                           "meets {}.",
                           pair.it->name, pair.it->device, at(&step.line), step.parameter, step.call, step.otherwise,
                           with_place(*pair.other)),
               std::move(fix)};
}

// The line that says no device and has made it on a GPU. Null: there is none.
const Frame* made_without_a_word(const Operand& it) {
  const Frame* const made = it.created.line();
  const bool unsaid = made && made->project && makes_tensor(made->source) && !says_device(made->source) &&
                      !hands_on_options(made->source);
  // torch.tensor() itself brings there what it has read on the CPU.
  const bool stayed = !it.moved.known() || (made && it.moved.line() && it.moved.line()->same_line(*made));
  return unsaid && stayed && !it.on_cpu() ? made : nullptr;
}

// A line that says no device has made it on a GPU: torch.set_default_device() has chosen that.
std::optional<Cause> made_on_a_chosen_default(const Evidence& evidence) {
  const auto line_of = [](const Operand& it) -> const Frame* {
    return !it.is_of_state() && it.computed_from.empty() ? made_without_a_word(it) : nullptr;
  };
  const auto pair = evidence.pair([&](const Operand& it) { return line_of(it) && it.expression.empty(); },
                                  [&](const Operand& other) { return !line_of(other); });
  if (!pair || made_by_a_layer(*pair.it)) return std::nullopt;
  const Frame& line = *line_of(*pair.it);
  Cause cause{kDefaultDevice, Confidence::medium,
              fmt::format("{} was made on {} by {}, which says no device: that is what the program has chosen as the "
                          "default. It meets {}.",
                          pair.it->name, pair.it->device, at(&line), with_place(*pair.other)),
              std::nullopt};
  for (const finding::Step& step : pair.it->lineage) {
    const std::string_view device = expression_of(step, pair.other->device);
    if (cause.fix || device.empty() || !step.line.same_line(line)) continue;
    if (auto code = give_device(line.source, device)) cause.fix = repair_of(line, std::move(*code));
  }
  if (!cause.fix) cause.fix = move_where_named(evidence, *pair.it, *pair.other);
  if (!cause.fix) cause.fix = use_site(evidence);
  return cause;
}

// A call has given "cuda" to the function that made it.
std::optional<Cause> given_without_a_number(const Evidence& evidence) {
  const auto pair = evidence.pair([](const Operand& it) { return given_the_current_device(it) != nullptr; },
                                  [](const Operand& other) {
                                    // What nobody brought away from the CPU was left there, and the GPU is right.
                                    const bool left = other.on_cpu() && !other.moved.known() && !other.is_state();
                                    return !left && given_the_current_device(other) == nullptr;
                                  });
  if (!pair) return std::nullopt;
  const finding::Step& step = *given_the_current_device(*pair.it);
  Cause cause{
      kDefaultDevice, Confidence::medium,
      fmt::format("{} was put on {}, the current device, because {} gives {} to {}. It meets {}.", pair.it->name,
                  pair.it->device, at(&step.line), step.otherwise, step.call, with_place(*pair.other)),
      fix_at_origin(evidence)};
  if (!cause.fix) cause.fix = pair.it->is_state() ? std::optional(repair_of(step.line, {})) : use_site(evidence);
  return cause;
}

// A line that says nothing of devices brought it to the current one.
std::optional<Cause> brought_without_a_word(const Evidence& evidence) {
  const auto pair =
      evidence.pair([&](const Operand& it) { return brought_by_no_word(evidence, it); },
                    [&](const Operand& other) { return !other.on_cpu() && !brought_by_no_word(evidence, other); });
  if (!pair) return std::nullopt;
  Cause cause{kDefaultDevice, Confidence::low,
              fmt::format("{} was brought to {}, the current device, at {}, which names none. It meets {}.",
                          pair.it->name, pair.it->device, at(pair.it->moved.line()), with_place(*pair.other)),
              fix_at_origin(evidence)};
  if (!cause.fix) cause.fix = use_site(evidence);
  return cause;
}

// A file was read to where it lay when it was saved, whatever device had been made current around that.
std::optional<Cause> read_past_the_current(const Evidence& evidence, const Operand& it, const Operand& other) {
  const Frame* const load = line_of_load(other);
  if (!load || !evidence.has_state_on(it.device) || evidence.has_state_on(other.device)) return std::nullopt;
  Cause cause{
      kDefaultDevice, Confidence::medium,
      fmt::format("{} was read from a file at {} to {}, where it lay when it was saved. {} was put on {}, which "
                  "was made current, and where the model is.",
                  other.name, at(load), other.device, it.name, it.device),
      load_where(evidence, *load, it)};
  const finding::DeviceChoice& choice = it.placed()->choice;
  const bool current = choice.device == it.device && !choice.by_default;
  if (current && cause.fix && names(*cause.fix, it))
    if (auto code = give_map_location(load->source, "torch.device(\"cuda\", torch.cuda.current_device())"))
      cause.fix = repair_of(*load, std::move(*code));
  return cause;
}

}  // namespace

// What it was computed from, and is gone, was brought to the device that was current, by a line that names no number.
static std::optional<Cause> brought_to_the_current(const Evidence& evidence) {
  const auto step_of = [](const Operand& it) {
    const auto found = [](const finding::Step& each) { return each.what == "brought" && names_no_number(each); };
    for (const Operand* from = &it; from; from = from->computed_from.empty() ? nullptr : &from->computed_from[0]) {
      const auto step = std::ranges::find_if(from->lineage, found);
      if (from->device == it.device && step != from->lineage.end()) return &*step;
    }
    return static_cast<const finding::Step*>(nullptr);
  };
  const auto pair = evidence.pair([&](const Operand& it) { return !it.is_of_state() && !it.on_cpu() && step_of(it); },
                                  [&](const Operand& other) { return !other.on_cpu() && !step_of(other); });
  if (!pair) return std::nullopt;
  const finding::Step& step = *step_of(*pair.it);
  Cause cause{
      kDefaultDevice, Confidence::medium,
      fmt::format("{} comes from what {} brought to the device that was current, which it names without a number. It "
                  "meets {}.",
                  with_place(*pair.it), at(&step.line), with_place(*pair.other)),
      std::nullopt};
  const std::string_view device = expression_of(step, pair.other->device);
  // What it met on the way would stay.
  const bool alone = std::ranges::none_of(pair.it->computed_from, [&](const Operand& source) {
    return source.device == pair.it->device && !step_of(source);
  });
  if (auto code = device.empty() || !alone ? std::nullopt : redirect_move(step.line.source, device))
    cause.fix = repair_of(step.line, std::move(*code));
  if (!cause.fix) cause.fix = use_site(evidence);
  return cause;
}

// Each was made by a line that says no device, while another one was current.
static std::optional<Cause> made_on_two_currents(const Evidence& evidence) {
  const auto from = [](const Operand& it) -> const Operand& {
    return it.computed_from.size() == 1 && it.computed_from[0].device == it.device ? it.computed_from[0] : it;
  };
  const auto pair = evidence.pair(
      [&](const Operand& it) { return !it.is_of_state() && made_without_a_word(from(it)) && !made_by_a_layer(it); },
      [&](const Operand& other) {
        return !other.on_cpu() && !other.moved.known() && other.placed() &&
               other.placed()->choice.device == other.device && other.computed_from.empty();
      });
  if (!pair) return std::nullopt;
  const Operand& it = from(*pair.it);
  Cause cause{kDefaultDevice, Confidence::medium,
              fmt::format("{} was made on {} by {}, which says no device: it is the current one. It meets {}, and when "
                          "that was made {} was current.",
                          it.name.empty() ? pair.it->name : it.name, it.device, at(made_without_a_word(it)),
                          with_place(*pair.other), pair.other->device),
              fix_at_origin(evidence)};
  if (!cause.fix) cause.fix = move_where_named(evidence, *pair.it, *pair.other);
  if (!cause.fix) cause.fix = use_site(evidence);
  return cause;
}

// Is the frame's function on the CPU with all that it has, a model among that, but for what lies with `it`?
static bool works_on_the_cpu(const Evidence& evidence, size_t frame, const Operand& it) {
  bool model = false;
  for (const finding::FrameExpression& each : evidence.refusal.tensors) {
    const bool is_model = each.expression.ends_with("()");
    if (each.frame != frame || (!is_model && each.expression == it.name_in(frame))) continue;
    if (each.device != "cpu") return false;
    model = model || is_model;
  }
  return model;
}

// A line of the failing function put it on a GPU, by words that say nothing of the model which the function calls.
std::optional<Cause> put_where_no_model_is(const Evidence& evidence) {
  const auto own = innermost_project(evidence.stack);
  if (!own || evidence.stack[*own].function == "<module>") return std::nullopt;
  const Frame& here = evidence.stack[*own];
  const auto line = [&](const Operand& it) -> const Frame* {
    if (!it.placed()) return *own == 0 && says_device(it.expression) ? &here : nullptr;
    const Frame* const placed = it.placed()->line();
    return placed && placed->same_function(here) && says_device(placed->source) ? placed : nullptr;
  };
  const auto pair = evidence.pair(
      [&](const Operand& it) {
        return !it.on_cpu() && !it.is_of_state() && it.role != "attribute" && line(it) &&
               works_on_the_cpu(evidence, *own, it);
      },
      [](const Operand& other) { return other.on_cpu() && !other.is_of_state(); });
  if (!pair) return std::nullopt;
  auto fix = pair.it->placed() ? fix_at_origin_of(evidence, *pair.it, pair.other->device)
                               : say_device_in_line(evidence, *pair.it, *pair.other);
  return Cause{kDefaultDevice, Confidence::medium,
               fmt::format("{} was put on {} by {}, where nothing else of {} lies: its model is on the CPU, and so is "
                           "{}.",
                           pair.it->name, pair.it->device, at(line(*pair.it)), here.function, with_place(*pair.other)),
               fix ? std::move(fix) : use_site(evidence)};
}

std::optional<Cause> by_the_current_device(const Evidence& evidence) {
  if (auto cause = made_on_two_currents(evidence)) return cause;
  return brought_to_the_current(evidence);
}

std::optional<Cause> default_device(const Evidence& evidence) {
  if (auto cause = other_thread(evidence)) return cause;
  if (auto cause = taken_away(evidence)) return cause;
  if (auto cause = made_in_the_line(evidence)) return cause;
  if (auto cause = made_on_a_number(evidence)) return cause;
  if (auto cause = left_to_a_default(evidence)) return cause;
  if (auto cause = given_without_a_number(evidence)) return cause;
  if (auto cause = made_on_a_chosen_default(evidence)) return cause;
  // Of a model's state only where the rest of the model lies elsewhere: it was moved on its own.
  const auto unnumbered = [](const Operand& it) {
    const Event* placed = it.placed();
    return (!it.is_state() || it.root_devices.size() >= 2) && placed && placed->line() &&
           (says_current_device(placed->line()->source) || it.device_from.says == "cuda" ||
            line_of_current_variable(*placed->line()));
  };
  auto pair = evidence.pair(unnumbered, [](const Operand& other) { return !other.on_cpu() && !other.is_state(); });
  // A model on one device has made it itself, and nobody gave it that.
  if (!pair)
    pair = evidence.pair([&](const Operand& it) { return unnumbered(it) && evidence.made_inside_model(it); },
                         [](const Operand& other) { return !other.on_cpu() && other.is_of_whole_model(); });
  if (!pair) return brought_without_a_word(evidence);
  if (auto cause = read_past_the_current(evidence, *pair.it, *pair.other)) return cause;
  const Frame& line = *pair.it->placed()->line();

  Cause cause{kDefaultDevice, Confidence::medium,
              fmt::format("{} was put on the device that was current at {}, which is not the one of {}.", pair.it->name,
                          at(&line), with_place(*pair.other)),
              say_device_in_variable(*pair.it, *pair.other)};
  if (!cause.fix) cause.fix = fix_of(evidence, *pair.it, *pair.other);
  return cause;
}

}  // namespace devtrace::report::verdict::rules
