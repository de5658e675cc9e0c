// Lines near the one that a fix changes, which would be refused next: nothing has run yet that could tell, so their
// text does.
#include <algorithm>
#include <map>
#include <set>

#include "common/format.h"
#include "common/python_scan.h"
#include "common/text.h"
#include "report/verdict/edits/device_edits.h"
#include "report/verdict/edits/earlier_line.h"
#include "report/verdict/edits/fixes.h"
#include "report/verdict/source/source_line.h"
#include "report/verdict/source/statement_scan.h"

namespace devtrace::report::verdict {
namespace {

bool is_known(const Fix& fix, int64_t line) {
  return fix.line == line ||
         std::any_of(fix.also.begin(), fix.also.end(), [&](const finding::Edit& each) { return each.line == line; });
}

// Where an operand, or the only one that it was computed from, has that name in the frame.
const Operand* named(const Evidence& evidence, size_t frame, std::string_view name) {
  for (const Operand& operand : evidence.operands) {
    if (operand.name_in(frame) == name) return &operand;
    for (const Operand& source : operand.computed_from)
      if (source.name_in(frame) == name && source.device == operand.device) return &source;
  }
  return nullptr;
}

// `x` where the fix gives it another device.
std::optional<std::string> moved_variable(const Fix& fix) {
  const auto name = assigned_name(fix.code.substr(0, fix.code.find('\n')));
  return name && is_identifier(*name) ? name : std::nullopt;
}

// `table[rows] = torch.arange(n)`: memory of a GPU is filled by nothing of the CPU's.
std::optional<std::string> fill_there(std::string_view text, std::string_view variable) {
  const bool fills = trimmed(text).starts_with(fmt::format("{}[", variable)) && Scan(text).balanced;
  if (!fills || !makes_tensor(value_in(text)) || says_device(text)) return std::nullopt;
  return give_device(text, fmt::format("{}.device", variable));
}

void add_below(const Evidence& evidence, Fix& fix) {
  const auto own = innermost_project(evidence.stack);
  const auto variable = moved_variable(fix);
  if (!own || !variable) return;
  const Frame& here = evidence.stack[*own];
  const Operand* const moved = named(evidence, *own, *variable);
  const auto on_gpu = [&](const Operand& each) { return each.device != moved->device && !each.on_cpu(); };
  if (!moved || here.file != fix.file || fix.line > here.line ||
      std::none_of(evidence.operands.begin(), evidence.operands.end(), on_gpu))
    return;
  const int64_t last = here.line + std::count(here.source.begin(), here.source.end(), '\n');
  size_t least = std::string::npos;  // of what runs whenever the two lines have run
  for (const auto& [number, text] : statements_around(here)) {
    if (number == fix.line || number == here.line) least = std::min(least, indentation(text));
    if (number > fix.line && number < here.line && !is_known(fix, number))
      if (auto code = fill_there(text, *variable)) fix.also.push_back({here.file, number, std::move(*code)});
    if (number <= last || trimmed(text).empty()) continue;
    if (indentation(text) < least) return;
    const bool again = assigned_name(text) == *variable && reads(text, *variable) == 0;
    if (again || !Scan(text).balanced) return;
    if (is_known(fix, number)) continue;
    if (auto code = give_device_beside(text, *variable, fmt::format("{}.device", *variable)))
      fix.also.push_back({here.file, number, std::move(*code)});
  }
}

// Is what the statement gives on the CPU, or no tensor, wherever what it reads is?
bool leaves_devices(std::string_view text) {
  constexpr std::string_view kLeave[] = {".item()", ".tolist()", ".numpy()", ".cpu()", "int(", "float(", "len("};
  return std::any_of(std::begin(kLeave), std::end(kLeave),
                     [&](std::string_view each) { return text.find(each) != text.npos; });
}

std::vector<std::string> targets_of(std::string_view text) {
  if (const auto name = assigned_name(text)) return {*name};
  return unpacked_names(text);
}

// What the fixed line makes on its device now: by a constructor of PyTorch's, or what a call gives, moved.
struct Maker {
  std::string called, device;  // called: empty for constructors

  bool makes(std::string_view text) const {
    if (says_device(text)) return false;
    if (called.empty()) return makes_tensor(text);
    const size_t at = find_variable(text, called);
    return at != text.npos && text.substr(at + called.size()).starts_with('(');
  }
  // Where the statement reads the name outside of that call.
  std::optional<std::string> beside(std::string_view text, std::string_view name) const {
    if (called.empty()) return give_device_beside(text, name, device);
    const auto call = only_call_in(text, Scan(text), called);
    const bool outside = call && reads(spliced(text, {call->name, call->close + 1}, "None"), name) > 0;
    return outside ? move_result(text, called, device) : std::nullopt;
  }
  std::optional<std::string> alone(std::string_view text) const {
    if (called.empty()) return give_device_to_all(text, device);
    const bool whole = !called_in_value(text).empty() && value_in(text).starts_with(called + "(");
    return whole ? move_value(text, device) : move_result(text, called, device);
  }
};

std::optional<Maker> maker_of(std::string_view before, const std::string& code) {
  constexpr std::string_view kMove = ".to(";
  const auto said = keyword_argument(code, "device");
  if (said && give_device(before, *said) == code) return Maker{"", *said};
  // `.to(…)` behind a call: the value, or what another function is given.
  const std::string statement = dedented(before);
  const auto at = static_cast<size_t>(std::ranges::mismatch(statement, code).in2 - code.begin());
  const Scan scan(code);
  const size_t close =
      code.compare(at, kMove.size(), kMove) == 0 ? closing(scan, code, at + kMove.size() - 1) : code.npos;
  if (close == code.npos) return std::nullopt;
  std::string device = code.substr(at + kMove.size(), close - at - kMove.size()), called;
  for (const Call& call : find_calls_if(code, scan, [](auto...) { return true; }))
    if (call.close + 1 == at) called = code.substr(call.name, call.open - call.name);
  if (!is_reference(called) || device.empty() || device[0] == '"' ||
      (move_value(before, device) != code && move_result(before, called, device) != code))
    return std::nullopt;
  return Maker{std::move(called), std::move(device)};
}

// `row = torch.arange(n)` below `spans = torch.arange(m, device=x.device)`, where a line further down computes with
// both; and `aims = read(a)` below `x = read(b).to(device)`.
void add_made_below(const Evidence& evidence, Fix& fix) {
  const auto variable = moved_variable(fix);
  const auto runs = [&](const Frame& each) { return each.project && each.file == fix.file && each.line >= fix.line; };
  const auto frame = std::find_if(evidence.stack.begin(), evidence.stack.end(), runs);
  if (!variable || frame == evidence.stack.end()) return;
  const auto lines = statements_around(*frame);
  const auto fixed = std::find_if(lines.begin(), lines.end(), [&](const auto& each) { return each.first == fix.line; });
  const auto maker = fixed == lines.end() ? std::nullopt : maker_of(fixed->second, fix.code);
  if (!maker) return;
  const auto below = statements_below(*frame, fix.line);
  const bool same_function = frame->line == fix.line || std::any_of(below.begin(), below.end(), [&](const auto& each) {
                               return each.first == frame->line;
                             });
  if (!same_function) return;
  std::set<std::string, std::less<>> moved = {*variable};
  std::map<std::string, finding::Edit, std::less<>> left;  // by what has it
  const auto add = [&](const finding::Edit& edit) {
    if (is_known(fix, edit.line)) return;
    const auto behind = std::ranges::find_if(fix.also, [&](const auto& each) { return each.line > edit.line; });
    fix.also.insert(behind, edit);
  };
  for (const auto& [number, text] : below) {
    const auto is_read = [&text = text](const auto& name) { return reads(text, name) > 0; };
    const auto reader = std::find_if(moved.begin(), moved.end(), is_read);
    const std::vector<std::string> targets = targets_of(text);
    const bool makes = maker->makes(text), leaves = leaves_devices(text);
    const auto source = std::find_if(left.begin(), left.end(), [&](const auto& each) { return is_read(each.first); });
    std::optional<finding::Edit> edit;
    if (source != left.end()) edit = source->second;
    auto beside = makes && reader != moved.end() ? maker->beside(text, *reader) : std::nullopt;
    if (beside) {
      add({fix.file, number, std::move(*beside)});
    } else if (makes && targets.size() == 1) {
      if (auto code = maker->alone(text)) edit = {fix.file, number, std::move(*code)};
    } else if (reader != moved.end() && !leaves) {
      for (const auto& [name, each] : left)
        if (is_read(name)) add(each);
    }
    const bool goes_along = reader != moved.end() && !leaves && (beside || !makes);
    for (const std::string& target : targets) {
      if (target == variable_of(maker->device)) return;
      moved.erase(target);
      left.erase(target);
      if (goes_along)
        moved.insert(target);
      else if (edit && !leaves)
        left[target] = *edit;
    }
  }
}

// `b.detach().numpy()` below `a.detach().cpu().numpy()`, of what lies with it.
void add_to_numpy(const Evidence& evidence, Fix& fix) {
  constexpr std::string_view kNumpy = ".numpy()";
  const auto own = innermost_project(evidence.stack);
  if (!own || evidence.operation != "torch.Tensor.numpy" || evidence.stack[*own].line != fix.line) return;
  const auto on_gpu = [&](std::string_view name) {
    for (const Operand& operand : evidence.operands)
      for (const Operand* each = &operand; each;
           each = each->computed_from.size() == 1 ? &each->computed_from[0] : nullptr) {
        const auto is = [&](const Operand& it) { return it.name_in(*own) == name && !it.on_cpu(); };
        if (is(*each) || std::any_of(each->siblings.begin(), each->siblings.end(), is)) return true;
      }
    return false;
  };
  const Frame& here = evidence.stack[*own];
  for (const auto& [number, text] : statements_around(here)) {
    const size_t at = text.find(kNumpy);
    if (number <= here.line || is_known(fix, number) || at == text.npos || text.find(kNumpy, at + 1) != text.npos)
      continue;
    if (indentation(text) < indentation(here.source) && is_definition(trimmed(text))) return;
    constexpr std::string_view kDetach = ".detach()";
    std::string_view name = std::string_view(text).substr(0, at);
    if (name.ends_with(kDetach)) name.remove_suffix(kDetach.size());
    size_t begin = name.size();
    while (begin > 0 && word_char(name[begin - 1])) --begin;
    if ((begin == 0 || name[begin - 1] != '.') && on_gpu(name.substr(begin)))
      fix.also.push_back({here.file, number, dedented(spliced(text, {at, at}, ".cpu()"))});
  }
}

// `self.value = nn.Linear(…)` beside `self.action = nn.Linear(…)`: what has been moved once stays where it is.
void add_alike(const Evidence& evidence, Fix& fix) {
  for (const Operand& it : evidence.operands) {
    const Frame* const made = it.created.line();
    if (!it.is_state() || !made || made->file != fix.file || made->line != fix.line || !in_a_constructor({*made}))
      continue;
    constexpr std::string_view kMove = ".to(";
    const size_t move = fix.code.rfind(kMove);
    if (move == fix.code.npos || fix.code.back() != ')' || fix.code.find("\"", move) != fix.code.npos) return;
    const std::string device = fix.code.substr(move + kMove.size(), fix.code.size() - move - kMove.size() - 1);
    if (fix.code != move_constructed(made->source, it.module_class, device)) return;
    for (const auto& [number, text] : statements_around(*made)) {
      const auto name = assigned_name(text);
      if (is_known(fix, number) || !name || !name->starts_with("self.")) continue;
      if (auto code = move_constructed(text, it.module_class, device))
        fix.also.push_back({made->file, number, std::move(*code)});
    }
    return;
  }
}

// `self.ended = torch.zeros(n)` beside `self.scores = torch.zeros(n)`, which is told a device: one object has both.
void add_attributes(const Evidence& evidence, Fix& fix) {
  std::vector<const Operand*> placed;
  for (const Operand& operand : evidence.operands) {
    placed.push_back(&operand.origin());
    for (const Operand& source : operand.computed_from) placed.push_back(&source);
  }
  for (const Operand* const each : placed) {
    const Operand& it = *each;
    const Frame* const made = it.created.line();
    if (!made || made->file != fix.file || made->line != fix.line) continue;
    const bool constructs = made->function.ends_with("__init__");
    if (const auto own = assigned_name(made->source); !constructs && (!own || !own->starts_with("self."))) continue;
    const auto step =
        std::find_if(it.lineage.begin(), it.lineage.end(), [](const auto& each) { return each.what == "made"; });
    for (const Operand& other : evidence.operands) {
      const std::string_view device =
          step == it.lineage.end() ? std::string_view() : expression_of(*step, other.device);
      if (device.empty() || give_device(made->source, device) != fix.code) continue;
      const auto lines = statements_around(*made);
      for (const auto& [number, text] : lines) {
        const auto name = assigned_name(text);
        if (is_known(fix, number) || !name || !name->starts_with("self.") || !makes_tensor(text) || says_device(text) ||
            (!constructs && !in_one_function(lines, made->line, number)))
          continue;
        if (auto code = give_device(text, device)) fix.also.push_back({made->file, number, std::move(*code)});
      }
      return;
    }
  }
}

}  // namespace

void add_lines_near(const Evidence& evidence, Fix& fix) {
  if (fix.code.empty()) return;
  add_below(evidence, fix);
  add_to_numpy(evidence, fix);
  if (fix.repairs != Repairs::cause) return;
  add_made_below(evidence, fix);
  add_alike(evidence, fix);
  add_attributes(evidence, fix);
}

}  // namespace devtrace::report::verdict
