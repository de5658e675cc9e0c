#include "report/verdict/evidence.h"

#include <algorithm>
#include <cctype>
#include <tuple>

#include "common/format.h"
#include "report/phrasing/phrasing.h"
#include "report/verdict/edits/device_edits.h"
#include "report/verdict/edits/earlier_line.h"
#include "report/verdict/source/source_line.h"
#include "report/verdict/source/statement_scan.h"

namespace devtrace::report::verdict {
namespace {

// In the names of operators that take elements by their number or by a mask.
constexpr std::string_view kIndexing[] = {"index", "gather", "scatter", "take", "mask", "embedding"};

// As the rules see an operand, and what it was computed from.
void prepare(Operand& operand) {
  operand.name = name_of(operand);
  // Of a pool's memory it is known where the pool took it, for whichever array: of this one that says nothing.
  if (!operand.pool.empty()) operand.created = {};
  if (operand.argument.find('[') != operand.argument.npos) operand.position.reset();
  // A kernel's parameter is no parameter of a module.
  if (operand.parameter && operand.role == "parameter" && operand.names.empty()) operand.role.clear();
  std::erase_if(operand.names, [](const finding::Name& each) { return each.name.empty(); });
  for (Operand& source : operand.computed_from) prepare(source);
}

}  // namespace

Evidence::Evidence(const Finding& it) : finding(it), operands(it.operands) {
  // That the failing line made its own intermediate result says nothing of where that lies.
  const auto of_this_line = [&](const Event& event) {
    const auto own = innermost_project(stack);
    return event.line() && own && event.line()->same_line(stack[*own]);
  };
  const auto named = [&](const Operand& each) {
    return std::ranges::any_of(
        each.names, [&](const auto& name) { return name.frame < stack.size() && stack[name.frame].project; });
  };
  // The only variable there that the line reads and that may be it, as of memory that nobody was seen to make.
  const auto given_there = [&](const Operand& each) -> const finding::Mention* {
    const auto own = innermost_project(stack);
    const finding::Mention* found = nullptr;
    for (const finding::Mention& mention : refusal.mentions) {
      if (!own || mention.frame != *own || mention.device != each.device) continue;
      if (found) return nullptr;
      found = &mention;
    }
    return found;
  };
  for (Operand& operand : operands) {
    // What a library has made for itself of what the line gives it is that.
    const bool of_given =
        !operand.names.empty() && !named(operand) && of_this_line(operand.created) && !operand.moved.known();
    if (of_given && operand.computed_from.size() == 1 && named(operand.computed_from[0])) {
      Operand given = operand.computed_from[0];
      given.mismatched = operand.mismatched;
      operand = std::move(given);
    } else if (const auto* const given = of_given && operand.computed_from.empty() ? given_there(operand) : nullptr) {
      operand.names.push_back({given->frame, given->name});
    }
    prepare(operand);
    if (operand.expression.empty()) continue;
    if (of_this_line(operand.moved)) operand.created = operand.moved = Event{};
    if (of_this_line(operand.created)) operand.created = Event{};
  }
}

bool in_a_constructor(const Stack& stack) {
  return std::any_of(stack.begin(), stack.end(),
                     [](const Frame& frame) { return frame.function.ends_with("__init__"); });
}

bool constructs(const Stack& stack, std::string_view type) {
  const std::string constructor = fmt::format("{}.__init__", type);
  return std::any_of(stack.begin(), stack.end(), [&](const Frame& frame) {
    return frame.function == constructor || frame.function.ends_with("." + constructor);
  });
}

bool made_by_a_layer(const Operand& operand) {
  return !operand.created.stack.empty() && operand.created.stack.front().file.find("/torch/nn/") != std::string::npos;
}

bool is_loaded_data(const Operand& operand) {
  const Stack& stack = operand.created.stack;
  return std::any_of(stack.begin(), stack.end(), [](const Frame& frame) {
    return frame.file.find("/torch/serialization.py") != frame.file.npos ||
           frame.file.find("/torch/utils/data/") != frame.file.npos;
  });
}

const finding::Step* placed_when_constructed(const Operand& state) {
  const auto by_default = [](const finding::Step& each) { return each.what == "defaulted"; };
  if (std::any_of(state.lineage.begin(), state.lineage.end(), by_default)) return nullptr;
  for (const finding::Step& step : state.lineage) {
    const std::string_view text = step.line.source;
    const size_t call = step.what == "constructed" ? text.find(fmt::format("{}(", step.call)) : text.npos;
    if (call == text.npos || state.moved.known()) continue;
    const size_t close = closing(Scan(text), text, call + step.call.size());
    if (close != text.npos && text.substr(close + 1).starts_with(".to(")) return &step;
  }
  return nullptr;
}

bool placed_by_choice(const Operand& operand) {
  const Frame* made = operand.created.line();
  return made && made->project && !operand.on_cpu() && !operand.moved.known() && says_device(made->source) &&
         !in_a_constructor(operand.created.stack);
}

const finding::Step* given_the_current_device(const Operand& operand) {
  const auto current = [](const finding::Step& each) {
    if (each.what != "given" || each.otherwise.find("cuda:") != each.otherwise.npos) return false;
    const auto says = [&](std::string_view words) { return each.otherwise.find(words) != each.otherwise.npos; };
    return says("\"cuda\"") || says("'cuda'") || says("current_device()");
  };
  const auto step = std::find_if(operand.lineage.begin(), operand.lineage.end(), current);
  return operand.on_cpu() || step == operand.lineage.end() ? nullptr : &*step;
}

bool by_a_stale_device(const Operand& operand, const Operand& other) {
  const finding::DeviceSource& from = operand.origin().device_from;
  if (from.role != "attribute") return false;
  // Its owner's own tensors were moved to where the other one is; or the other one has left the device that is kept.
  if (from.kind == "module") return from.devices.size() == 1 && from.devices[0] == other.device;
  // A line that moves it by that very device has not forgotten it, as one that brings a part and puts it away.
  const Frame* const line = other.moved.line();
  if (line && line->source.find(from.name) != std::string::npos) return false;
  return other.is_state() && other.moved.from == operand.device;
}

namespace {

void add_with_sources(const Operand& operand, size_t depth, std::vector<std::pair<size_t, const Operand*>>& out) {
  out.emplace_back(depth, &operand);
  if (is_taken_where_made(operand)) return;
  for (const Operand& source : operand.computed_from) add_with_sources(source, depth + 1, out);
}

}  // namespace

const Operand* Evidence::left_of_its_line(const Operand& operand) const {
  const Frame* const made = operand.created.line();
  if (!made || !made->project || !operand.on_cpu() || operand.moved.known() || operand.is_of_state()) return nullptr;
  std::vector<std::pair<size_t, const Operand*>> others;
  for (const Operand& each : operands)
    if (each.device != operand.device) add_with_sources(each, 0, others);
  for (const auto& [depth, each] : others) {
    const Frame* const line = each->created.line();
    const bool brought = each->moved.known() && each->moved.from == operand.device && each->device != operand.device;
    if (brought && !each->is_of_state() && line && line->same_line(*made) && each->moved.line() &&
        !each->moved.line()->same_line(*made))
      return each;
  }
  return nullptr;
}

std::vector<Evidence> Evidence::traced() const {
  constexpr size_t kMost = 24;
  // Of one operand on each device: the others say no more.
  std::vector<size_t> traced;
  for (size_t i = 0; i < operands.size() && traced.size() < 2; ++i) {
    const auto same = [&](size_t other) { return operands[other].device == operands[i].device; };
    if (std::none_of(traced.begin(), traced.end(), same)) traced.push_back(i);
  }
  if (traced.size() < 2) return {};
  std::vector<std::pair<size_t, const Operand*>> first, second;
  add_with_sources(operands[traced[0]], 0, first);
  add_with_sources(operands[traced[1]], 0, second);
  std::vector<std::tuple<size_t, const Operand*, const Operand*>> pairs;
  for (const auto& [depth, one] : first)
    for (const auto& [more, other] : second)
      if (depth + more > 0) pairs.emplace_back(depth + more, one, other);
  std::stable_sort(pairs.begin(), pairs.end(),
                   [](const auto& a, const auto& b) { return std::get<0>(a) < std::get<0>(b); });
  if (pairs.size() > kMost) pairs.resize(kMost);
  std::vector<Evidence> all;
  for (const auto& [depth, one, other] : pairs) {
    Evidence evidence = *this;
    for (const auto& [index, source] : {std::pair(traced[0], one), std::pair(traced[1], other)}) {
      if (source == &operands[index]) continue;
      evidence.computed += fmt::format("{} was computed from {}. ", operands[index].name, source->name);
      evidence.operands[index] = *source;
    }
    all.push_back(std::move(evidence));
  }
  return all;
}

namespace {

bool went_to_current_device(const Operand& it) {
  const Event* placed = it.placed();
  return placed && !placed->choice.device.empty() && placed->choice.device == it.device;
}

}  // namespace

bool Evidence::by_another_threads_default(const Operand& it, const Operand& other) const {
  if (!went_to_current_device(it) || !went_to_current_device(other)) return false;
  const Event &left = *it.placed(), &chosen = *other.placed();
  return left.choice.by_default && left.thread && thread && *left.thread != *thread && left.line() &&
         left.line()->project && !chosen.choice.by_default && chosen.thread == thread;
}

bool Evidence::taken_to_current_device(const Operand& it, const Operand& other) const {
  if (!it.moved.known() || !it.moved.line() || it.on_cpu() || other.on_cpu()) return false;
  if (it.moved.from != other.device || it.device != current_device || it.moved.thread != thread) return false;
  const std::string_view line = it.moved.line()->source, said = it.device_from.says;
  const bool numbered = line.find("cuda:") != line.npos || said.find(':') != said.npos;
  return !numbered && has_state_on(other.device) && !has_state_on(it.device);
}

std::string_view owner_of(const Frame& frame) {
  const size_t dot = frame.function.rfind('.');
  return dot == frame.function.npos ? frame.function : std::string_view(frame.function).substr(0, dot);
}

namespace {

// `self.model = Net()`, and behind that `self.model.to(device)`, where the line in question or its neighbours say it.
bool says_where(const Frame& made) {
  const size_t begin = made.source.find_first_not_of(" \t"), equals = made.source.find(" = ");
  if (begin == made.source.npos || equals == made.source.npos || equals < begin) return false;
  const auto moves = [](std::string_view text) {
    return text.find(".to(") != text.npos || text.find(".cpu()") != text.npos;
  };
  if (moves(made.source.substr(equals))) return true;
  const std::string_view target = std::string_view(made.source).substr(begin, equals - begin);
  for (const auto& [number, line] : statements_around(made)) {
    const size_t at = line.find(target);
    const bool names = at != line.npos && line.find_first_not_of(" \t") == at;
    if (number > made.line && names && moves(line.substr(at + target.size()))) return true;
  }
  return false;
}

}  // namespace

bool Evidence::put_on_the_cpu(const Operand& state, size_t caller) const {
  if (!state.is_of_whole_model() || !state.on_cpu() || caller >= stack.size()) return false;
  const auto by_hooks = [](const Frame& frame) { return frame.file.find("/accelerate/") != frame.file.npos; };
  if (state.moved.known()) return std::none_of(state.moved.stack.begin(), state.moved.stack.end(), by_hooks);
  const Frame& here = stack[caller];
  return std::any_of(state.created.stack.begin(), state.created.stack.end(), [&](const Frame& made) {
    return made.file == here.file && owner_of(made) == owner_of(here) && says_where(made);
  });
}

std::optional<std::string_view> Evidence::own_device() const {
  const auto own = innermost_project(stack);
  if (!own) return std::nullopt;
  // A function that the module's code has called works for it.
  const auto module = std::find_if(refusal.modules.begin(), refusal.modules.end(),
                                   [&](const finding::RunningModule& each) { return each.frame >= *own; });
  const bool one = module != refusal.modules.end() && module->devices.size() == 1;
  return one ? std::optional<std::string_view>(module->devices[0]) : std::nullopt;
}

bool Evidence::is_index_of(const Operand& it, const Operand& other) const {
  const auto counts = [](const Operand& operand) {
    return operand.dtype && (operand.dtype->starts_with("int") || operand.dtype->starts_with("uint") ||
                             operand.dtype->starts_with("bool"));
  };
  const bool indexes = std::any_of(std::begin(kIndexing), std::end(kIndexing),
                                   [&](std::string_view word) { return operation.find(word) != operation.npos; });
  return indexes && counts(it) && !counts(other);
}

bool Evidence::has_state_on(std::string_view device) const {
  return std::find(refusal.state_devices.begin(), refusal.state_devices.end(), device) != refusal.state_devices.end();
}

bool Evidence::passes_through(std::string_view part) const {
  return std::any_of(stack.begin(), stack.end(),
                     [&](const Frame& frame) { return frame.file.find(part) != frame.file.npos; });
}

std::optional<size_t> Evidence::caller_of_model() const {
  for (size_t index = stack.size(); index-- > 1;) {
    if (calls_modules(stack[index - 1]) && !calls_modules(stack[index])) return index;
  }
  return std::nullopt;
}

// Stacks are compared from the outermost frame inwards. Every frame that the two share, line for line, was running both
// when the tensor was made and when the operation was refused, unless a loop came by twice. So the frames further in
// must be of the model as well.
bool Evidence::made_inside_model(const Operand& operand) const {
  return happened_inside_model(operand.created);
}

bool Evidence::happened_inside_model(const Event& event) const {
  const Stack& made = event.stack;
  const auto caller = caller_of_model();
  if (!caller || made.empty() || (event.thread && thread && *event.thread != *thread)) return false;
  const auto given = placed_before_call(*caller);
  if (given && event.time && *event.time < *given) return false;
  const size_t depth = stack.size() - *caller;  // frames from the outermost to the caller of the model
  if (made.size() <= depth) return false;
  for (size_t from_outside = 1; from_outside <= depth; ++from_outside) {
    const Frame& here = stack[stack.size() - from_outside];
    const Frame& there = made[made.size() - from_outside];
    if (!here.same_line(there)) return false;
  }
  return calls_modules(made[made.size() - depth - 1]);
}

std::optional<double> Evidence::placed_before_call(size_t frame) const {
  std::optional<double> last;
  const size_t depth = stack.size() - std::min(frame, stack.size());
  const auto look = [&](const auto& self, const Operand& operand) -> void {
    const Event* placed = operand.placed();
    // What stands in the frame's variables was there when it called, and what its own code made; an object's attributes
    // may have changed since.
    const bool own = placed && frame < stack.size() && placed->stack.size() == depth &&
                     placed->stack.front().same_function(stack[frame]);
    if (placed && placed->time && (own || is_identifier(operand.name_in(frame)))) last = std::max(last, placed->time);
    for (const Operand& source : operand.computed_from) self(self, source);
  };
  for (const Operand& operand : operands) look(look, operand);
  return last;
}

bool Evidence::made_under(const Operand& operand, size_t frame) const {
  const Stack& made = operand.created.stack;
  if (frame >= stack.size()) return false;
  const size_t depth = stack.size() - frame;
  if (made.size() < depth) return false;
  for (size_t from_outside = 1; from_outside <= depth; ++from_outside) {
    const Frame& here = stack[stack.size() - from_outside];
    const Frame& there = made[made.size() - from_outside];
    if (from_outside == depth ? !here.same_function(there) : !here.same_line(there)) return false;
  }
  return true;
}

bool Evidence::made_by_line(const Operand& operand, size_t frame) const {
  if (!made_under(operand, frame)) return false;
  const Stack& made = operand.created.stack;
  return made[made.size() - (stack.size() - frame)].same_line(stack[frame]);
}

bool Evidence::made_before_call(const Operand& operand) const {
  const Event* placed = operand.placed();
  if (!placed || placed->stack.empty() || stack.empty()) return false;
  const Stack& made = placed->stack;
  const size_t depth =
      stack.size() - innermost_project(stack).value_or(0);  // frames from the outermost to that function
  for (size_t from_outside = 1; from_outside <= depth; ++from_outside) {
    if (from_outside > made.size()) return true;  // made by one of its callers
    const Frame& here = stack[stack.size() - from_outside];
    const Frame& there = made[made.size() - from_outside];
    if (from_outside == depth ? !here.same_function(there) : !here.same_line(there)) return true;
  }
  return false;
}

bool is_taken_where_made(const Operand& operand) {
  const Frame* const made = operand.created.line();
  return made && made->project && operand.on_cpu() && made->source.find(".cpu()") != std::string::npos;
}

bool computed_where_its_module_lies(const Operand& it) {
  const auto& module = it.given_by;
  return module.kind == "module" &&
         std::find(module.devices.begin(), module.devices.end(), it.device) != module.devices.end();
}

bool Evidence::made_by_a_modules_method(const Operand& operand) const {
  const auto frame = frame_that_made(operand);
  return frame && std::any_of(refusal.modules.begin(), refusal.modules.end(),
                              [&](const finding::RunningModule& each) { return each.frame == *frame; });
}

std::optional<size_t> Evidence::frame_that_made(const Operand& operand) const {
  const Stack& made = operand.created.stack;
  if (made.empty()) return std::nullopt;
  for (size_t index = 0; index < stack.size(); ++index) {
    const size_t outside = stack.size() - index;
    if (outside != made.size() || !stack[index].same_function(made.front())) continue;
    return index;
  }
  return std::nullopt;
}

}  // namespace devtrace::report::verdict
