// torch.zeros(…) and the like without device=: the default device, which is the CPU, whatever the data around it is on.
#include <algorithm>

#include "common/cache_names.h"
#include "common/format.h"
#include "common/text.h"
#include "report/verdict/edits/device_edits.h"
#include "report/verdict/edits/earlier_line.h"
#include "report/verdict/rules.h"
#include "report/verdict/source/source_line.h"
#include "report/verdict/source/statement_scan.h"

namespace devtrace::report::verdict::rules {
namespace {

// The failing line, where the operand is the result of a part of it that makes a tensor of nothing:
// `torch.rand(n) * scale`.
const Frame* made_in_failing_line(const Evidence& evidence, const Operand& operand) {
  const auto own = innermost_project(evidence.stack);
  if (!own || operand.expression.empty() || !operand.on_cpu() || !operand.computed_from.empty()) return nullptr;
  return leaves_device_out(operand.expression) ? &evidence.stack[*own] : nullptr;
}

// nn.Parameter(torch.ones(n)) that a function gives to an optimizer.
bool is_of_no_module(const Operand& operand) {
  return operand.is_parameter && operand.role == "variable" && operand.module_path.empty();
}

// The line that made the tensor, when it says no device and the tensor is still there: of the failing call's own
// functions, or of the model that it runs. Null otherwise.
const Frame* line_without_device(const Evidence& evidence, const Operand& operand) {
  if (const Frame* line = made_in_failing_line(evidence, operand)) return line;
  if ((operand.is_state() && !is_of_no_module(operand)) || operand.moved.known() || operand.created.stack.empty() ||
      !operand.on_cpu())
    return nullptr;
  if (!evidence.frame_that_made(operand) && !evidence.made_inside_model(operand)) return nullptr;
  if (is_loaded_data(operand) || evidence.left_of_its_line(operand)) return nullptr;
  // What a running model makes of numbers of its own, `torch.from_numpy(rng.uniform(size=n))`, nobody gave it.
  const Frame* const made = operand.created.line();
  const bool of_numbers = made && gives_new_tensor(made->source) && evidence.made_inside_model(operand);
  for (const Frame* frame : {&operand.created.stack.front(), made}) {
    if (!makes_tensor(frame->source) && !constructs_tensor(frame->source) && !of_numbers) continue;
    return says_device(frame->source) ? nullptr : frame;
  }
  return nullptr;
}

// Made by the caller of a method of a module's, and given to it: another rule's.
bool is_given_to_a_module(const Evidence& evidence, const Operand& it) {
  const auto made = evidence.frame_that_made(it), own = innermost_project(evidence.stack);
  if (!made || !own || *made <= *own || evidence.made_by_a_modules_method(it)) return false;
  return std::any_of(evidence.refusal.modules.begin(), evidence.refusal.modules.end(),
                     [&](const finding::RunningModule& each) { return each.frame < *made; });
}

}  // namespace

const finding::RunningModule* maker_of(const Evidence& evidence, const Operand& it) {
  const Frame* const made = it.created.line();
  // What the method gives may be a structure of tensors.
  const auto structure = [](const Chain& chain) { return chain.holders.back().kind == "object"; };
  const bool kept = it.role == "attribute" && std::none_of(it.held_by.begin(), it.held_by.end(), structure);
  if (!made || !made->project || !it.on_cpu() || it.is_of_state() || it.moved.known() || kept ||
      !leaves_device_out(made->source) || made->function.ends_with(".__init__"))
    return nullptr;
  const auto& running = evidence.refusal.modules;
  const auto own = std::find_if(running.begin(), running.end(), [&](const finding::RunningModule& each) {
    return each.devices.size() == 1 && made->function.starts_with(each.type + ".");
  });
  return own == running.end() ? nullptr : &*own;
}

bool is_given_to_an_object(const Evidence& evidence, const Operand& it) {
  const auto made = evidence.frame_that_made(it), own = innermost_project(evidence.stack);
  if (it.role != "attribute" || !made || !own || *made <= *own) return false;
  const auto variable = [&](const finding::Name& each) { return each.frame == *made && is_identifier(each.name); };
  return std::any_of(it.names.begin(), it.names.end(), variable) &&
         std::any_of(it.held_by.begin(), it.held_by.end(), [](const Chain& chain) {
           const Holder* const last = chain.holders.empty() ? nullptr : &chain.holders.back();
           return last && last->kind == "object" && last->holds == "attribute" && last->bound.line <= 0;
         });
}

// `torch.tensor(batch["scores"])` in a function that has called the failing one: data that came from elsewhere, and
// that nobody moved.
bool is_given_data(const Evidence& evidence, const Operand& it) {
  const auto made = evidence.frame_that_made(it), own = innermost_project(evidence.stack);
  return made && own && *made > *own && it.role != "attribute" && it.created.line() &&
         converts_data(it.created.line()->source);
}

// A line of a running function, or of what it called, says that it is to be on the CPU.
std::optional<Cause> made_for_the_cpu(const Evidence& evidence) {
  const auto own = innermost_project(evidence.stack);
  const auto line = [&](const Operand& it) -> const Frame* {
    const Frame* const made = it.created.line();
    const bool now = own && made && made->project && evidence.made_under(it, *own);
    if (!now || !it.on_cpu() || it.moved.known() || it.is_of_state() || !makes_tensor(made->source)) return nullptr;
    const std::string said = keyword_argument(made->source, "device").value_or("");
    return said.find("\"cpu\"") != said.npos || said.find("'cpu'") != said.npos ? made : nullptr;
  };
  const auto pair = evidence.pair([&](const Operand& it) { return line(it) != nullptr; },
                                  [](const Operand& other) { return !other.on_cpu(); });
  if (!pair) return std::nullopt;
  const Frame& made = *line(*pair.it);
  Cause cause{
      "created-without-device", Confidence::low,
      fmt::format("{} was made on cpu, as {} says, and meets {}.", pair.it->name, at(&made), with_place(*pair.other)),
      use_site(evidence)};
  const auto step = std::ranges::find_if(pair.it->lineage, [&](const finding::Step& each) {
    return each.what == "made" && each.line.same_line(made) && !expression_of(each, pair.other->device).empty();
  });
  if (step != pair.it->lineage.end())
    if (auto code = say_device(made.source, expression_of(*step, pair.other->device)))
      cause.fix = repair_of(made, std::move(*code));
  return cause;
}

std::optional<Cause> made_on_the_default_device(const Evidence& evidence) {
  const auto line = [&](const Operand& it) -> const Frame* {
    if (it.is_of_state() || !it.on_cpu() || it.moved.known() || is_given_to_a_module(evidence, it)) return nullptr;
    const Frame* made = it.created.line();
    return made && made->project && leaves_device_out(made->source) ? made : nullptr;
  };
  const auto pair = evidence.pair([&](const Operand& it) { return line(it) != nullptr; },
                                  [](const Operand& other) { return !other.on_cpu(); });
  if (!pair) return std::nullopt;
  if (is_given_data(evidence, *pair.it))
    return Cause{"input-not-moved", Confidence::low,
                 fmt::format("{} holds data that {} read to the CPU, and was given to {} there. It meets {}.",
                             pair.it->name, at(line(*pair.it)),
                             evidence.stack[*innermost_project(evidence.stack)].function, with_place(*pair.other)),
                 use_site(evidence)};
  return Cause{"created-without-device", Confidence::low,
               fmt::format("{} was made on cpu because {} says no device, and meets {}.", pair.it->name,
                           at(line(*pair.it)), with_place(*pair.other)),
               use_site(evidence)};
}

// A function that has ended has made both: the other one's line says a device.
std::optional<Cause> made_beside_one_that_says(const Evidence& evidence) {
  const auto line = [](const Operand& it) { return it.created.line(); };
  const auto unsaid = [&](const Operand& it) {
    return it.on_cpu() && !it.moved.known() && !it.is_of_state() && !is_loaded_data(it) && line(it) &&
           line(it)->project && leaves_device_out(line(it)->source);
  };
  for (const Operand& it : evidence.operands)
    for (const Operand& other : evidence.operands) {
      const bool beside = unsaid(it) && !other.on_cpu() && line(other) && says_device(line(other)->source) &&
                          line(other)->same_function(*line(it)) && !in_a_constructor(it.created.stack) &&
                          std::none_of(evidence.stack.begin(), evidence.stack.end(),
                                       [&](const Frame& frame) { return frame.same_function(*line(it)); });
      if (!beside) continue;
      return Cause{"created-without-device", Confidence::medium,
                   fmt::format("{} was made on cpu because {} says no device, and {} says one for {}.", it.name,
                               at(line(it)), at(line(other)), with_place(other)),
                   use_site(evidence)};
    }
  return std::nullopt;
}

// The line in front of the one that made it, in sight of it, that makes what it was made of, and says no device.
static std::string made_of(const Frame& made) {
  std::string found;
  for (const auto& [number, line] : statements_around(made)) {
    if (number >= made.line) break;
    const size_t begin = line.find_first_not_of(" \t"), equals = line.find(" = ");
    const bool assigns = begin != line.npos && equals != line.npos && equals > begin;
    const std::string_view name = assigns ? line.substr(begin, equals - begin) : std::string_view();
    if (is_identifier(name) && reads(made.source, name) > 0 && leaves_device_out(line)) {
      Frame there = made;
      there.line = number;
      found = at(&there);
    }
  }
  return found;
}

// What the model was given that lies where the operand does: `x`, of which the caller says `x.device`.
static std::string given_there(const Evidence& evidence, const Operand& it) {
  constexpr std::string_view kDevice = ".device";
  const auto caller = evidence.caller_of_model();
  for (const finding::FrameExpression& each : evidence.refusal.expressions) {
    const std::string_view tensor = std::string_view(each.expression).substr(0, each.expression.rfind('.'));
    if (!caller || each.frame > *caller || each.device != it.device || !each.expression.ends_with(kDevice)) continue;
    const std::string& line = evidence.stack[each.frame].source;
    if (each.frame == *caller && (reads(line, tensor) == 0 || line.find(fmt::format("{}.", tensor)) != line.npos))
      continue;
    if (is_reference(tensor) && !tensor.starts_with("self.") && tensor != it.name_in(each.frame))
      return std::string(tensor);
  }
  return {};
}

std::optional<Cause> made_inside_without_state(const Evidence& evidence) {
  if (evidence.has_state_on("cpu")) return std::nullopt;
  const auto made_here = [&](const Operand& it) {
    return !it.is_of_state() && it.role != "attribute" && it.on_cpu() && !it.moved.known() && it.created.line() &&
           it.created.line()->project && evidence.made_inside_model(it);
  };
  const auto inside = [&](const Operand& it) {
    return made_here(it) && !says_device(it.created.line()->source) && it.computed_from.empty() &&
           it.given_by.keeps.empty();
  };
  // Computed from nothing but what was made there for the device that a variable says.
  const auto for_a_device = [&](const Operand& it) {
    return it.computed_from.empty()
               ? it.device_from.says == "cpu" && it.device_from.role != "attribute"
               : std::all_of(it.computed_from.begin(), it.computed_from.end(), [&](const Operand& source) {
                   return made_here(source) && source.device_from.says == "cpu" &&
                          source.device_from.role != "attribute";
                 });
  };
  const auto elsewhere = [](const Operand& other) { return !other.on_cpu(); };
  if (const auto pair =
          evidence.pair([&](const Operand& it) { return made_here(it) && for_a_device(it); }, elsewhere)) {
    const Operand& first = pair.it->computed_from.empty() ? *pair.it : pair.it->computed_from.front();
    return Cause{
        "created-without-device", Confidence::medium,
        fmt::format("{} was made inside the model, of which nothing is on the CPU, for the device that {} says: "
                    "cpu. It meets {}.",
                    with_place(first), first.device_from.name, with_place(*pair.other)),
        use_site(evidence)};
  }
  const auto pair = evidence.pair(inside, elsewhere);
  if (!pair) return std::nullopt;
  const std::string of = made_of(*pair.it->created.line());
  if (const auto given = of.empty() ? given_there(evidence, *pair.it) : std::string(); !given.empty())
    return Cause{"input-not-moved", Confidence::low,
                 fmt::format("{} was computed inside the model, of which nothing is on the CPU, and {} was given to it "
                             "there. It meets {}.",
                             with_place(*pair.it), given, with_place(*pair.other)),
                 use_site(evidence)};
  return Cause{"created-without-device", of.empty() ? Confidence::low : Confidence::medium,
               of.empty() ? fmt::format("{} was computed inside the model, of which nothing is on the CPU: what it was "
                                        "computed from was made without a device. It meets {}.",
                                        with_place(*pair.it), with_place(*pair.other))
                          : fmt::format("{} was computed from what {} has made, which says no device, and meets {}.",
                                        with_place(*pair.it), of, with_place(*pair.other)),
               use_site(evidence)};
}

std::optional<Cause> made_of_what_says_no_device(const Evidence& evidence) {
  const auto of = [](const Operand& it) {
    const Frame* const made = it.created.line();
    const bool bare = it.on_cpu() && !it.moved.known() && !it.is_of_state() && it.computed_from.empty();
    return bare && made && made->project && !says_device(made->source) ? made_of(*made) : std::string();
  };
  const auto pair = evidence.pair([&](const Operand& it) { return !of(it).empty(); },
                                  [](const Operand& other) { return !other.on_cpu(); });
  if (!pair) return std::nullopt;
  return Cause{"created-without-device", Confidence::low,
               fmt::format("{} was computed from what {} has made, which says no device, and meets {}.",
                           with_place(*pair.it), of(*pair.it), with_place(*pair.other)),
               use_site(evidence)};
}

std::optional<Cause> made_without_elements(const Evidence& evidence) {
  const auto empty = [](const Operand& it) {
    return it.on_cpu() && !it.is_of_state() && it.created.stack.empty() && !it.moved.known() &&
           std::find(it.shape.begin(), it.shape.end(), 0) != it.shape.end();
  };
  const auto pair = evidence.pair(empty, [](const Operand& other) { return !other.on_cpu(); });
  if (!pair) return std::nullopt;
  return Cause{
      "created-without-device", Confidence::low,
      fmt::format("{} has no elements, and so no memory that anybody was seen to allocate. A tensor that is a "
                  "beginning, as torch.tensor([]) or torch.zeros(0, 4), is on the CPU where it is made without "
                  "a device. It meets {}.",
                  pair.it->name, with_place(*pair.other)),
      use_site(evidence)};
}

// A line of the failing function, above the failing one, that computed it with what a call of a function gave. Null for
// one that reads what lies on the CPU, or an element of something.
static const Frame* computed_with_a_call(const Evidence& evidence, const Operand& it, size_t own) {
  const Stack& stack = it.created.stack;
  const Frame* const made = it.created.line();
  const size_t depth = evidence.stack.size() - own;
  if (!it.on_cpu() || it.moved.known() || it.is_of_state() || it.role != "variable" || !it.computed_from.empty() ||
      !it.given_by.devices.empty() || is_loaded_data(it) || !made || stack.size() < depth ||
      made != &stack[stack.size() - depth] || made->line >= evidence.stack[own].line || !evidence.made_under(it, own))
    return nullptr;
  const std::string_view value = value_in(made->source);
  const Scan scan(value);
  const auto calls = [&](size_t open) {
    size_t begin = open;
    while (begin > 0 && word_char(value[begin - 1])) --begin;
    return scan.code[open] && begin < open && (begin == 0 || value[begin - 1] != '.');
  };
  bool called = false;
  for (size_t at = value.find('('); at != value.npos; at = value.find('(', at + 1)) called = called || calls(at);
  const auto on_cpu = [&](const finding::Mention& each) {
    return each.frame == own && each.device == "cpu" && each.name != it.name && reads(value, each.name) > 0;
  };
  const auto& mentions = evidence.refusal.mentions;
  const bool given = std::any_of(mentions.begin(), mentions.end(), on_cpu);
  return !called || given || value.find('[') != value.npos || says_device(value) ? nullptr : made;
}

static std::optional<Cause> made_with_a_call(const Evidence& evidence, size_t own) {
  const auto pair = evidence.pair([&](const Operand& it) { return computed_with_a_call(evidence, it, own); },
                                  [](const Operand& other) { return !other.on_cpu(); });
  if (!pair) return std::nullopt;
  const Frame& line = *computed_with_a_call(evidence, *pair.it, own);
  Cause cause{"created-without-device", Confidence::low,
              fmt::format("{} was computed on the CPU by {}, with what a call in that line gave, which was given no "
                          "tensor that lies there: that was made without a device. It meets {}.",
                          with_place(*pair.it), at(&line), with_place(*pair.other)),
              std::nullopt};
  for (const finding::Step& step : pair.it->lineage) {
    const std::string_view device = step.what == "made" ? expression_of(step, pair.other->device) : std::string_view();
    if (cause.fix || device.empty() || !step.line.same_line(line)) continue;
    if (auto code = move_value(line.source, device)) cause.fix = repair_of(line, std::move(*code));
  }
  if (!cause.fix) cause.fix = use_site(evidence);
  return cause;
}

// Does that frame's line name something that lies on the CPU?
static bool names_what_is_on_the_cpu(const Evidence& evidence, size_t frame) {
  const auto there = [&](const finding::Mention& each) { return each.frame == frame && each.device == "cpu"; };
  return std::ranges::any_of(evidence.refusal.mentions, there);
}

// By a call that the failing line gives to a library's function, `stft(x, window=self.window(n))`, itself.
static std::optional<Cause> made_by_a_call_given(const Evidence& evidence, size_t own) {
  const auto made = [&](const Operand& it) {
    return it.on_cpu() && !it.moved.known() && !it.is_of_state() && it.computed_from.empty() &&
           is_call(it.name_in(own)) && !makes_tensor(it.name_in(own)) && !says_device(it.name_in(own)) &&
           evidence.made_by_line(it, own) && it.created.stack.size() == evidence.stack.size() - own;
  };
  const auto pair = evidence.pair(made, [](const Operand& other) { return !other.on_cpu(); });
  if (!pair || names_what_is_on_the_cpu(evidence, own)) return std::nullopt;
  return Cause{"created-without-device", Confidence::low,
               fmt::format("{} was made on the CPU by {} itself, which names nothing that lies there: that makes it "
                           "without a device. It meets {}.",
                           pair.it->name_in(own), at(&evidence.stack[own]), with_place(*pair.other)),
               use_site(evidence)};
}

// By a method, or a property, of a running module that lies on the CPU as a whole: what it has was never moved.
static std::optional<Cause> computed_by_a_module_left(const Evidence& evidence, const Operand& it,
                                                      const Operand& other) {
  const Frame& made = *it.created.line();
  for (const finding::RunningModule& module : evidence.refusal.modules) {
    if (module.devices.size() != 1 || module.devices[0] != it.device || !made.function.starts_with(module.type + "."))
      continue;
    const auto caller = caller_of(evidence, module);
    if (!caller) return std::nullopt;
    auto fix = repairing(move_called(evidence, *caller, other, {}));
    return Cause{"module-split-or-hook-missing", Confidence::low,
                 fmt::format("{} was computed by {} of a module that lies on the CPU as a whole, and was given {}.",
                             with_place(it), made.function, with_place(other)),
                 fix ? std::move(fix) : std::optional(repair_of(evidence.stack[*caller], {}))};
  }
  return std::nullopt;
}

std::optional<Cause> made_by_a_call_without_tensors(const Evidence& evidence) {
  const auto own = innermost_project(evidence.stack);
  if (!own || evidence.stack[*own].function == "<module>") return std::nullopt;
  if (auto cause = made_with_a_call(evidence, *own)) return cause;
  if (auto cause = made_by_a_call_given(evidence, *own)) return cause;
  const size_t depth = evidence.stack.size() - *own;
  const auto made = [&](const Operand& it) {
    const Stack& stack = it.created.stack;
    return it.on_cpu() && !it.moved.known() && !it.is_of_state() && it.role != "attribute" && it.role != "element" &&
           it.computed_from.empty() && it.given_by.keeps.empty() && it.given_by.devices.empty() &&
           stack.size() > depth && evidence.made_under(it, *own) && it.created.line() != &stack[stack.size() - depth] &&
           !says_device(it.created.line()->source) && !is_loaded_data(it);
  };
  const auto pair = evidence.pair(made, [](const Operand& other) { return !other.on_cpu(); });
  if (!pair) return std::nullopt;
  const Frame& line = *pair.it->created.line();
  if (auto cause = computed_by_a_module_left(evidence, *pair.it, *pair.other)) return cause;
  const auto brought = std::ranges::find(pair.it->lineage, "brought", &finding::Step::what);
  if (brought != pair.it->lineage.end() && !makes_tensor(line.source))
    return Cause{"input-not-moved", Confidence::low,
                 fmt::format("{} was computed on the CPU by {}, whose call had taken something there at {}, and "
                             "nothing brought it back. It meets {}.",
                             with_place(*pair.it), line.function, at(&brought->line), with_place(*pair.other)),
                 use_site(evidence)};
  return Cause{"created-without-device", Confidence::low,
               fmt::format("{} was computed on the CPU by {}, which was called here and given no tensor that lies "
                           "there: what that computes with was made without a device. It meets {}.",
                           with_place(*pair.it), line.function, with_place(*pair.other)),
               use_site(evidence)};
}

// Inside a module of TorchScript's, whose tensors have no names in Python.
std::optional<Cause> in_torchscript(const Evidence& evidence) {
  const auto& running = evidence.refusal.modules;
  const auto own = innermost_project(evidence.stack);
  constexpr std::string_view kScripts[] = {"RecursiveScriptModule", "TopLevelTracedModule", "ScriptModule"};
  const bool script = std::ranges::any_of(running, [&](const finding::RunningModule& each) {
    return own && each.frame < *own && std::ranges::find(kScripts, each.type) != std::end(kScripts);
  });
  const auto unseen = [](const Operand& it) {
    return it.on_cpu() && it.names.empty() && it.expression.empty() && it.is_tensor() && !it.moved.known() &&
           it.computed_from.empty() && !it.is_of_state();
  };
  const auto pair = evidence.pair(unseen, [](const Operand& other) { return !other.on_cpu(); });
  if (!script || !pair) return std::nullopt;
  if (auto fix = move_called(evidence, *own, *pair.other, {}))
    return Cause{"module-split-or-hook-missing", Confidence::low,
                 fmt::format("A compiled module is called here, something of it lies on the CPU, and it was given {}.",
                             with_place(*pair.other)),
                 std::move(fix)};
  return Cause{
      "created-without-device", Confidence::low,
      fmt::format("{} is of code that TorchScript runs. A trace keeps the device that it was recorded on, also "
                  "of torch.zeros(…, device=x.device): the model has to be traced on {}. A script makes on "
                  "the CPU what is told no device.",
                  pair.it->name, pair.other->device),
      repair_of(evidence.stack[*own], {})};
}

// Nothing that the failing line names lies there: what one of its calls gives does, or works with.
std::optional<Cause> given_by_a_call_in_the_line(const Evidence& evidence) {
  const auto own = innermost_project(evidence.stack);
  const auto given = [&](const Operand& it) {
    const bool unshown = it.expression.empty() && it.names.empty() && it.is_tensor();
    return own && it.on_cpu() && !it.is_of_state() && !it.placed() && it.computed_from.empty() &&
           (unshown ||
            (it.expression.find('(') != it.expression.npos && it.expression.find("cpu") == it.expression.npos));
  };
  const auto pair = evidence.pair(given, [](const Operand& other) { return !other.on_cpu(); });
  if (!pair) return std::nullopt;
  if (names_what_is_on_the_cpu(evidence, *own)) return std::nullopt;
  return Cause{"created-without-device", Confidence::low,
               fmt::format("{} lies on the CPU, where nothing is that the line names: what a call in it gives was made "
                           "without a device. It meets {}.",
                           with_place(*pair.it), with_place(*pair.other)),
               use_site(evidence)};
}

// An object that the failing line constructs, and uses: what it has lies on the CPU.
static std::optional<Cause> constructed_in_the_line(const Evidence& evidence) {
  const auto own = innermost_project(evidence.stack);
  if (!own || evidence.stack[*own].function == "<module>") return std::nullopt;
  const auto owner = [](const Operand& it) -> const Holder* {
    for (const Chain& chain : it.held_by)
      if (!chain.holders.empty() && chain.holders.back().is_module()) return &chain.holders.back();
    return nullptr;
  };
  const Frame& line = evidence.stack[*own];
  const Scan scan(line.source);
  const auto pair = evidence.pair(
      [&](const Operand& it) {
        return it.role == "attribute" && it.on_cpu() && !it.moved.known() && owner(it) &&
               evidence.made_by_line(it, *own) && only_call_in(line.source, scan, owner(it)->type);
      },
      [](const Operand& other) { return !other.on_cpu(); });
  if (!pair) return std::nullopt;
  const std::string& type = owner(*pair.it)->type;
  Cause cause{"created-without-device", Confidence::medium,
              fmt::format("{} is constructed by {} itself, on the CPU, where {} is made. It meets {}.", type, at(&line),
                          pair.it->name, with_place(*pair.other)),
              repair_of(line, {})};
  const std::string_view device = expression_of(evidence, *own, pair.other->device);
  if (!device.empty()) cause.fix->code = move_call_of(line.source, type, device).value_or("");
  return cause;
}

// A method of a running module's that has ended has made it, for whoever called: a state to begin with, a mask.
static std::optional<Cause> made_by_a_method(const Evidence& evidence) {
  const auto pair =
      evidence.pair([&](const Operand& it) { return maker_of(evidence, it) && !evidence.frame_that_made(it); },
                    [](const Operand& other) { return !other.on_cpu(); });
  if (!pair || maker_of(evidence, *pair.it)->devices[0] != pair.other->device) return std::nullopt;
  // A module that was moved afterwards, or in the same tick of the clock, may not have told that device.
  const auto &then = pair.it->created.time, &moved = pair.other->moved.time;
  if (pair.other->is_state() && then && moved && *moved >= *then) return std::nullopt;
  const Frame& made = *pair.it->created.line();
  Cause cause{"created-without-device", Confidence::medium,
              fmt::format("{} was made on cpu by {}, whose module is on {}: {} says no device. It meets {}.",
                          pair.it->name, made.function, pair.other->device, at(&made), with_place(*pair.other)),
              redirect_elements(*pair.it, *pair.other)};
  if (cause.fix) return cause;
  if (auto code = give_device(made.source, "next(self.parameters()).device"))
    cause.fix = repair_of(made, std::move(*code));
  else
    cause.fix = use_site(evidence);
  return cause;
}

std::optional<Cause> created_without_device(const Evidence& evidence) {
  if (auto cause = constructed_in_the_line(evidence)) return cause;
  if (auto cause = made_by_a_method(evidence)) return cause;
  const auto pair = evidence.pair([&](const Operand& it) { return line_without_device(evidence, it) != nullptr; },
                                  [](const Operand&) { return true; });
  if (!pair) return std::nullopt;
  const Operand& it = *pair.it;
  const Operand& other = *pair.other;
  // Made by the caller of a model and given to it, it is an input: another rule's.
  const auto caller = evidence.caller_of_model(), failing = innermost_project(evidence.stack);
  const bool inside = evidence.made_inside_model(it) || (made_in_failing_line(evidence, it) && failing < caller);
  if (other.is_state() && caller && !inside && !evidence.made_by_a_modules_method(it)) return std::nullopt;
  if (is_given_to_a_module(evidence, it) || is_given_to_an_object(evidence, it)) return std::nullopt;
  if (names_a_cache(it.name)) return std::nullopt;  // it outlives the call
  // It may well lie there: what is to choose from it has come from elsewhere.
  const auto making = evidence.frame_that_made(it);
  if (evidence.is_index_of(other, it) && making && failing && *making > *failing) return std::nullopt;

  const Frame& made = *line_without_device(evidence, it);
  const auto frame = &made == made_in_failing_line(evidence, it) ? failing : evidence.frame_that_made(it);
  const bool here = frame && made.project;
  // That no device is said there is read from the line's text.
  Cause cause{"created-without-device", Confidence::medium,
              fmt::format("{} was made on {} because {} says no device, and meets {}.", it.name, it.device, at(&made),
                          with_place(other)),
              std::nullopt};
  cause.fix = fix_at_origin(evidence);
  if (!cause.fix && here && named_before(evidence, *frame, other, made)) {
    if (auto line = give_device(made.source, device_expression(evidence, *frame, other))) {
      cause.fix = repair_of(made, std::move(*line));
    }
  }
  if (!cause.fix) cause.fix = move_where_named(evidence, it, other);
  // What a line writes through, as out=, cannot be moved in that line.
  if (!cause.fix && here && failing && writes_through(evidence.stack[*failing].source, it.name))
    if (auto line = give_device(made.source, expression_or_number(evidence, made, other.device)))
      cause.fix = repair_of(made, std::move(*line));
  // One of several that lie there: the line would be refused for the next.
  const bool one_of_several = 1 < std::count_if(evidence.operands.begin(), evidence.operands.end(),
                                                [&](const Operand& each) { return each.device == it.device; });
  if (!cause.fix || (one_of_several && failing && cause.fix->line == evidence.stack[*failing].line)) {
    if (auto all = use_site(evidence)) cause.fix = std::move(all);
  }
  return cause;
}

}  // namespace devtrace::report::verdict::rules
