// What PyTorch would refuse next, once a fix has brought its operand to where the other one lies. These are lines below
// that compute with what has come along and with what has not.
#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "common/format.h"
#include "common/python_scan.h"
#include "common/text.h"
#include "report/verdict/edits/device_edits.h"
#include "report/verdict/edits/earlier_line.h"
#include "report/verdict/edits/fixes.h"
#include "report/verdict/source/device_flow.h"
#include "report/verdict/source/source_line.h"
#include "report/verdict/source/statement_scan.h"

namespace devtrace::report::verdict {
namespace {

constexpr size_t kMostEdits = 8;  // a fix of more lines is none that a person would want

// The devices that the fix is between, and its words for the one to which it brings something.
struct Way {
  std::string from, to, words;
};

// What the last `.to(…)` is given first, or says in the place of what a dict has for a device.
std::string last_moved_to(std::string_view code) {
  constexpr std::string_view kInstead = "\"device\": ";
  if (const size_t at = code.find(kInstead); at != code.npos && code.find(".to(**{**") < at)
    return std::string(code.substr(at + kInstead.size(), code.find('}', at) - at - kInstead.size()));
  constexpr std::string_view kTo[] = {"to"};
  const Scan scan(code);
  const auto calls = find_calls(code, scan, ".", kTo);
  const auto given = calls.empty() ? std::vector<Span>() : arguments(code, scan, calls.back());
  return given.empty() ? std::string() : std::string(code.substr(given[0].begin, given[0].end - given[0].begin));
}

// The frame in whose function the fix stands, in a line that has run, or does.
std::optional<size_t> running_frame(const Evidence& evidence, const Fix& fix) {
  for (size_t frame = 0; frame < evidence.stack.size(); ++frame) {
    const Frame& here = evidence.stack[frame];
    if (!here.project || here.around.text.empty() || here.file != fix.file || here.line < fix.line) continue;
    const auto inside = statements_below(here, fix.line);
    const auto is_here = [&](const auto& each) { return each.first == here.line; };
    const bool within = here.function.ends_with("comp>") || here.function.ends_with("<genexpr>");
    if (within && frame + 1 < evidence.stack.size() && evidence.stack[frame + 1].file == here.file) continue;
    if (here.line == fix.line || std::ranges::any_of(inside, is_here)) return frame;
  }
  return std::nullopt;
}

std::optional<Way> way_of(const Evidence& evidence, const Fix& fix, size_t frame) {
  std::vector<std::string_view> devices;
  for (const Operand& each : evidence.operands)
    if (!each.device.empty() && std::find(devices.begin(), devices.end(), each.device) == devices.end())
      devices.push_back(each.device);
  if (devices.size() != 2 || devices[0] == "meta" || devices[1] == "meta") return std::nullopt;
  std::string words, to;
  for (const std::string& said : {last_moved_to(fix.code), keyword_argument(fix.code, "device").value_or("")}) {
    const bool literal = said.starts_with('"') || said.find("(\"") != said.npos;
    if (!to.empty() || said.empty() || literal || said.find("dtype") != said.npos) continue;
    const auto means = [&](const finding::FrameExpression& each) {
      const std::string_view module = std::string_view(each.expression).substr(0, each.expression.find("()"));
      return each.frame == frame && (each.expression == said || each.expression + ".device" == said ||
                                     said == fmt::format("next({}.parameters()).device", module));
    };
    for (const auto* list : {&evidence.refusal.tensors, &evidence.refusal.expressions})
      if (const auto found = std::ranges::find_if(*list, means); to.empty() && found != list->end()) to = found->device;
    if (!to.empty() || words.empty()) words = said;
  }
  if (words.empty()) return std::nullopt;
  // Words that nothing is known of: what lies on the CPU is most often what was forgotten.
  if (to.empty() && devices[0] == "cpu") to = devices[1];
  if (to.empty() && devices[1] == "cpu") to = devices[0];
  if (to == "cpu" || (to != devices[0] && to != devices[1])) return std::nullopt;
  return Way{std::string(to == devices[0] ? devices[1] : devices[0]), to, std::move(words)};
}

// The flow of a running frame, as its names are now.
DeviceFlow flow_of(const Evidence& evidence, size_t frame, const Way& way, std::string words) {
  DeviceFlow flow({way.from, way.to, std::move(words), {}, {}, {}});
  for (const finding::FrameExpression& each : evidence.refusal.tensors)
    if (each.frame == frame) flow.names[each.expression] = each.device;
  for (const finding::FrameExpression& each : evidence.refusal.expressions)
    if (each.frame == frame) flow.devices[each.expression] = each.device;
  for (const finding::FrameExpression& each : evidence.refusal.named_devices)
    if (each.frame == frame)
      flow.devices[each.expression] = each.device == "cuda" ? evidence.current_device : each.device;
  flow.current = evidence.current_device;
  return flow;
}

// The parameters in the order of a function's `def`; what is given by keyword alone comes behind an empty one.
std::vector<std::string> parameters_of(std::string_view definition) {
  const Scan scan(definition);
  const size_t open = definition.find('('), close = open == definition.npos ? open : closing(scan, definition, open);
  if (close == definition.npos) return {};
  std::vector<std::string> found;
  for (const Span& each : arguments(definition, scan, {open, open, close})) {
    const std::string_view text = trimmed(definition.substr(each.begin, each.end - each.begin));
    found.emplace_back(text.starts_with('*') ? "" : text.substr(0, text.find_first_of(":= ")));
  }
  return found;
}

// What one of two returns gives.
FlowValue either_of(FlowValue one, const FlowValue& other) {
  if (one.device != other.device) one.device.clear();
  if (one.elements.size() != other.elements.size()) one.elements.clear();
  for (size_t i = 0; i < one.elements.size(); ++i)
    one.elements[i] = either_of(std::move(one.elements[i]), other.elements[i]);
  return one;
}

class RefusedNext {
 public:
  // `frame`: in whose function the fix stands.
  RefusedNext(const Evidence& evidence, const Fix& fix, size_t frame, Way way)
      : evidence_(evidence), fix_(fix), start_(frame), way_(std::move(way)) {}

  // The fix with what comes next; nothing where that cannot be followed.
  std::optional<Fix> follow() {
    DeviceFlow flow = flow_of(evidence_, start_, way_, way_.words);
    flow.modules_come = bring_module(flow);
    follow_calls(flow, start_, finding::kNoIndex);
    const Frame& here = evidence_.stack[start_];
    const int64_t first = first_line(here);
    forget_made_since(flow, here, first);
    run_edit(flow, here, first);
    below(flow, here, first);
    for (size_t frame = start_;;) {
      const auto caller = next_project(frame);
      if (!caller) break;
      const Frame& outside = evidence_.stack[*caller];
      DeviceFlow outer = flow_of(evidence_, *caller, way_, {});
      outer.returned = {function_name(evidence_.stack[frame]), without_names(returned_.value_or(FlowValue()))};
      follow_calls(outer, *caller, finding::kNoIndex);
      returned_.reset();
      if (const auto edit = outer.run(outside.source)) add(outside, outside.line, *edit);
      returned_ = outer.result();
      if (!returned_) below(outer, outside, outside.line);
      frame = *caller;
    }
    return fix_.also.size() > kMostEdits ? std::nullopt : std::optional(fix_);
  }

 private:
  // Of the fix's edits in that function; one above the fix is followed as a line below it is.
  int64_t first_line(const Frame& here) const {
    int64_t first = fix_.line;
    for (const auto& each : fix_.also) {
      if (each.file != here.file || each.line >= first) continue;
      const auto inside = statements_below(here, each.line);
      if (std::ranges::any_of(inside, [&](const auto& one) { return one.first == fix_.line; })) first = each.line;
    }
    return first;
  }

  // Is it a module that the fix brings, `self.head.to(x.device)`, and not one of several GPUs' parts?
  bool bring_module(DeviceFlow& flow) const {
    bool brings = false;
    for (auto& [name, device] : flow.names) {
      const std::string_view module = std::string_view(name).substr(0, name.find("()"));
      const bool moves = fix_.code.find(fmt::format("{}.to(", module)) != std::string::npos;
      if (module.size() == name.size() || device != "cpu" || device != way_.from || !moves) continue;
      device = way_.to;
      brings = true;
    }
    return brings;
  }

  // `counts = counts - 2`: what it gives lies where the name's value lay.
  bool lies_where_it_lay(const DeviceFlow& flow, const std::string& name, std::string_view text) const {
    return std::ranges::all_of(std::array{way_.from, way_.to}, [&](const std::string& device) {
      DeviceFlow trial = flow;
      trial.follow = {};
      trial.names[name] = device;
      const bool edits = trial.run(text).has_value();
      const auto after = trial.names.find(name);
      return !edits && after != trial.names.end() && after->second == device;
    });
  }

  // `rows = torch.cat(rows)`, which has run: above it the name was another thing's than it is now.
  void forget_made_since(DeviceFlow& flow, const Frame& here, int64_t line) {
    for (const auto& [number, text] : statements_below(here, line)) {
      const auto name = assigned_name(text);
      if (number >= here.line || !name || reads(text, *name) == 0 || lies_where_it_lay(flow, *name, text)) continue;
      auto known = flow.names.extract(*name);
      const bool of_the_fix = fix_.code.starts_with(fmt::format("{}.append(", *name));
      if (known && !of_the_fix) made_since_.emplace(number, std::move(known));
    }
  }
  void remember_made(DeviceFlow& flow, int64_t line) {
    if (const auto found = made_since_.find(line); found != made_since_.end()) {
      flow.names.insert(std::move(found->second));
      made_since_.erase(found);
    }
  }

  void follow_calls(DeviceFlow& flow, size_t frame, finding::Index by) {
    flow.follow = [this, frame, by](const FlowNames& outside, const std::string& expression, const auto& given) {
      const auto& all = evidence_.refusal.called;
      const auto called = std::ranges::find_if(all, [&](const finding::CalledFunction& each) {
        return each.expression == expression && (by == finding::kNoIndex ? each.frame == frame : each.by == by);
      });
      return called == all.end() ? std::nullopt : call(*called, outside, given);
    };
  }

  // Follows the lines of a function that is called. What they give, as far as that is known.
  std::optional<FlowValue> call(const finding::CalledFunction& called, const FlowNames& outside,
                                const std::vector<FlowGiven>& given) {
    const Frame& code = called.code;
    const auto lines = statements_around(code);
    const bool generator = find_variable(code.around.text, "yield") != std::string::npos;
    if (lines.empty() || generator) return std::nullopt;
    DeviceFlow flow({way_.from, way_.to, {}, {}, {}, {}});
    flow.current = evidence_.current_device;
    follow_calls(flow, 0, static_cast<finding::Index>(&called - evidence_.refusal.called.data()));
    std::vector<std::string> parameters = parameters_of(lines[0].second);
    const bool method = !parameters.empty() && (parameters[0] == "self" || parameters[0] == "cls");
    if (method) {
      for (const finding::DeviceExpression& each : called.tensors) flow.names[each.expression] = each.device;
      know_as(flow, outside, called.expression.substr(0, called.expression.rfind('.')), parameters[0]);
      parameters.erase(parameters.begin());
    }
    for (size_t i = 0; i < given.size(); ++i) {
      const auto& [keyword, value] = given[i];
      const std::string& name = keyword.empty() && i < parameters.size() ? parameters[i] : keyword;
      if (name.empty()) break;
      if (!value.device.empty()) flow.names[name] = value.device;
      if (!value.said.empty()) flow.devices[name] = value.said;
      if (!value.reference.empty()) know_as(flow, outside, value.reference, name);
    }
    const auto before = std::exchange(returned_, std::nullopt);
    std::optional<FlowValue> result;
    for (const auto& [number, text] : statements_below(code, code.line)) {
      if (const auto again = as_the_fix(text)) add(code, number, *again);
      run_statement(flow, code, number, text);
      if (const auto one = std::exchange(returned_, std::nullopt)) result = result ? either_of(*result, *one) : *one;
    }
    returned_ = before;
    const bool known = result && (!result->device.empty() || !result->elements.empty());
    return known ? std::optional(without_names(*result)) : std::nullopt;
  }

  // The statement with what the fix puts in the place of an expression that it has, too: what trains a model and what
  // evaluates it compute the loss alike.
  std::optional<std::string> as_the_fix(std::string_view text) const {
    const auto lines = statements_around(evidence_.stack[start_]);
    const auto fixed = std::ranges::find_if(lines, [&](const auto& each) { return each.first == fix_.line; });
    if (fixed == lines.end() || fix_.code.find('\n') != std::string::npos) return std::nullopt;
    const std::string_view before = trimmed(value_in(fixed->second)), after = trimmed(value_in(fix_.code));
    const bool calls = before.ends_with(')') && is_call(before);
    const std::string_view words = way_.words;
    const std::string_view device = words.starts_with("next(") ? words.substr(words.find('(') + 1) : words;
    if (!calls || after.empty() || find_variable(before, variable_of(device)) == before.npos) return std::nullopt;
    const std::string_view moved = after.substr(0, after.find(".to("));
    const bool module = is_reference(moved) && !before.substr(moved.size()).starts_with(".to(");
    if (module) return std::nullopt;  // it stays there
    auto edit = replace_expression(text, before, after);
    return edit && Scan(*edit).balanced ? edit : std::nullopt;
  }

  // What has the name `self.net.x` outside has `self.x` within.
  static void know_as(DeviceFlow& flow, const FlowNames& outside, const std::string& name, const std::string& within) {
    for (auto [from, to] : {std::pair(&outside.names, &flow.names), std::pair(&outside.devices, &flow.devices)})
      for (const auto& [own, device] : *from)
        if (own.starts_with(name) && own.size() > name.size() &&
            std::string_view(".[(").find(own[name.size()]) != std::string_view::npos)
          (*to)[within + own.substr(name.size())] = device;
  }

  // In the function that is returned to they mean something else.
  static FlowValue without_names(FlowValue value) {
    value.base.clear();
    for (FlowValue& each : value.elements) each = without_names(std::move(each));
    return value;
  }

  std::optional<size_t> next_project(size_t frame) const {
    while (++frame < evidence_.stack.size())
      if (evidence_.stack[frame].project)
        return evidence_.stack[frame].around.text.empty() ? std::nullopt : std::optional(frame);
    return std::nullopt;
  }

  static std::string function_name(const Frame& frame) {
    const std::string_view name = frame.function;
    const std::string_view last = name.substr(name.rfind('.') + 1);
    return last == "__call__" ? "forward" : std::string(last);
  }

  // Runs lines that stand in the place of one. Answers with them, and what they want besides.
  std::string run_lines(DeviceFlow& flow, std::string_view lines) {
    std::vector<std::string> statements;
    for (std::string_view rest = lines; !rest.empty();) {
      const std::string_view line = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(std::min(rest.size(), line.size() + 1));
      if (!statements.empty() && !Scan(statements.back()).balanced)
        statements.back().append("\n").append(line);
      else
        statements.emplace_back(line);
    }
    std::string code;
    for (const std::string& each : statements) {
      const auto edit = flow.run(each);
      code += (code.empty() ? "" : "\n") + edit.value_or(each);
      if (flow.result()) returned_ = flow.result();
    }
    return code;
  }

  // The fix's edit of that line; whether there is one.
  bool run_edit(DeviceFlow& flow, const Frame& here, int64_t line) {
    const auto is_here = [&](const auto& each) { return each.file == here.file && each.line == line; };
    const auto other = std::ranges::find_if(fix_.also, is_here);
    if (is_here(fix_))
      fix_.code = run_lines(flow, fix_.code);
    else if (other != fix_.also.end())
      other->fix = run_lines(flow, other->fix);
    return is_here(fix_) || other != fix_.also.end();
  }

  void run_statement(DeviceFlow& flow, const Frame& here, int64_t number, std::string_view text) {
    if (!run_edit(flow, here, number)) {
      const std::string filled = filled_from_itself(flow, text);
      const auto before = filled.empty() ? std::nullopt : std::optional(flow);
      auto edit = flow.run(text);
      if (auto there = edit && before ? fill_on_its_device(*before, here, number, filled) : std::nullopt) {
        flow = std::move(*there);
        edit = flow.run(text);
      }
      if (edit) add(here, number, *edit);
    }
    if (flow.result()) returned_ = flow.result();
  }

  void below(DeviceFlow& flow, const Frame& here, int64_t line) {
    if (returned_) return;
    for (const auto& [number, text] : statements_below(here, line)) {
      if (&here == &evidence_.stack[start_]) remember_made(flow, number);
      run_statement(flow, here, number, text);
      if (returned_) return;
    }
  }

  // The `path` of `path[i + 1] = path[i] + step`, where it lies on the wrong device; empty for another statement.
  std::string filled_from_itself(const DeviceFlow& flow, std::string_view text) const {
    const std::string statement = dedented(text);
    const std::string name(container_of(std::string_view(statement).substr(0, Scan(statement).value_begins)));
    const auto known = name.empty() ? flow.names.end() : flow.names.find(name);
    return known != flow.names.end() && known->second == way_.from && reads(statement, name) > 0 ? name : std::string();
  }

  // Where a line above has made the path, and said no device, that line says one. The flow from then on.
  std::optional<DeviceFlow> fill_on_its_device(DeviceFlow flow, const Frame& here, int64_t line,
                                               const std::string& name) {
    Frame fills = here;
    fills.line = line;
    const auto made = assigned_above(fills, name);
    if (!made || !leaves_device_out(made->source) || !bound_above(*made, variable_of(way_.words))) return std::nullopt;
    const auto code = give_device(made->source, way_.words);
    if (!code) return std::nullopt;
    add(here, made->line, *code);
    flow.names[name] = way_.to;
    return flow;
  }

  void add(const Frame& here, int64_t line, const std::string& code) {
    const auto is_here = [&](const auto& each) { return each.file == here.file && each.line == line; };
    if ((fix_.file == here.file && fix_.line == line) || std::ranges::any_of(fix_.also, is_here)) return;
    fix_.also.push_back({here.file, line, dedented(code)});
  }

  const Evidence& evidence_;
  Fix fix_;
  const size_t start_;
  const Way way_;
  std::map<int64_t, decltype(DeviceFlow::names)::node_type> made_since_;  // by the line
  std::optional<FlowValue> returned_;
};

}  // namespace

void add_refused_next(const Evidence& evidence, Fix& fix) {
  if (fix.code.empty() || evidence.refusal.tensors.empty()) return;
  const auto frame = running_frame(evidence, fix);
  auto way = frame ? way_of(evidence, fix, *frame) : std::nullopt;
  if (!way) return;
  if (binds(fix.code, variable_of(way->words))) way->words.clear();  // of a comprehension
  if (auto more = RefusedNext(evidence, fix, *frame, std::move(*way)).follow()) fix = std::move(*more);
}

}  // namespace devtrace::report::verdict
