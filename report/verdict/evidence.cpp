#include "report/verdict/evidence.h"

#include <algorithm>
#include <cctype>
#include <tuple>

#include "report/base/format.h"
#include "report/base/phrasing.h"
#include "report/verdict/device_edits.h"
#include "report/verdict/source_line.h"

namespace devtrace::report::verdict {
namespace {

Frame read_frame(const Json& frame) {
  const Json& around = object(frame, "around");
  return {string(frame, "file"),
          string(frame, "function"),
          string(frame, "source"),
          integer(frame, "line").value_or(0),
          flag(frame, "project"),
          string(frame, "offset"),
          {string(around, "text"), integer(around, "line").value_or(0)}};
}

Stack read_stack(const Json& frames) {
  Stack stack;
  stack.reserve(frames.size());
  for (const Json& frame : frames) stack.push_back(read_frame(frame));
  return stack;
}

DeviceChoice read_choice(const Json& choice) {
  return {string(choice, "device"), flag(choice, "by_default"), read_stack(array(choice, "python")),
          read_stack(array(choice, "native"))};
}

Event read_event(const Json& operand, const char* key) {
  const Json& record = object(operand, key);
  Event event;
  event.known = !record.empty();
  event.time = number(record, "time");
  event.from = string(record, "from");
  event.to = string(record, "to");
  event.stack = read_stack(array(record, "python"));
  event.thread = integer(record, "thread");
  event.native = read_stack(array(record, "native"));
  event.call = string(record, "call");
  event.choice = read_choice(object(record, "device_choice"));
  return event;
}

std::vector<std::string_view> strings(const Json& record, const char* key) {
  std::vector<std::string_view> found;
  for (const Json& each : array(record, key))
    if (each.is_string()) found.push_back(each.get_ref<const std::string&>());
  return found;
}

std::vector<Holder::Part> read_parts(const Json& record, const char* key) {
  std::vector<Holder::Part> parts;
  for (const Json& part : array(record, key)) parts.push_back({string(part, "name"), strings(part, "devices")});
  return parts;
}

Holder read_holder(const Json& record) {
  Holder holder;
  holder.name = string(record, "name");
  holder.kind = string(record, "kind");
  holder.type = string(record, "class");
  holder.holds = string(record, "holds");
  holder.function = string(record, "function");
  holder.devices = strings(record, "devices");
  holder.replica = flag(record, "replica");
  holder.modules = read_parts(record, "modules");
  const Json& bound = object(record, "bound");
  holder.bound = {string(bound, "file"), {}, string(bound, "source"), integer(bound, "line").value_or(0), false};
  return holder;
}

Chain read_chain(const Json& record) {
  Chain chain;
  chain.frame = static_cast<size_t>(std::max<int64_t>(0, integer(record, "frame").value_or(0)));
  chain.name = string(record, "name");
  for (const Json& holder : array(record, "holders")) chain.holders.push_back(read_holder(holder));
  return chain;
}

Operand read_operand(const Json& record) {
  Operand operand;
  operand.name = name_of(record);
  operand.expression = string(record, "expression");
  operand.role = string(record, "role");
  operand.device = string(record, "device");
  operand.dtype = string(record, "dtype");
  operand.is_tensor = string(record, "array_of").empty();
  operand.module_path = string(record, "module_path");
  operand.module_class = string(record, "module_class");
  operand.root_class = string(record, "root_class");
  operand.hook = string(record, "hook");
  operand.device_map = string(record, "device_map");
  operand.odd = flag(record, "odd");
  operand.is_parameter = flag(record, "is_parameter");
  for (const Json& name : array(record, "names")) {
    const auto frame = integer(name, "frame");
    if (frame && *frame >= 0 && !string(name, "name").empty()) {
      operand.names.push_back({static_cast<size_t>(*frame), string(name, "name")});
    }
  }
  // Of a pool's memory it is known where the pool took it, for whichever array: of this one that says nothing.
  if (string(record, "pool").empty()) operand.created = read_event(record, "created");
  operand.moved = read_event(record, "moved");
  operand.root_devices = strings(record, "root_devices");
  for (const Json& chain : array(record, "held_by")) operand.held_by.push_back(read_chain(chain));
  operand.view_of = string(record, "view_of");
  operand.moved_away = {string(object(record, "moved_away"), "name"), string(object(record, "moved_away"), "device")};
  const Json& giver = object(record, "given_by");
  operand.given_by.name = string(giver, "name");
  operand.given_by.kind = string(giver, "kind");
  for (const Json& kept : array(giver, "keeps"))
    operand.given_by.keeps.push_back(
        {string(kept, "name"), string(kept, "device"), read_event(kept, "created"), read_event(kept, "moved")});
  operand.given_by.devices = strings(giver, "devices");
  const Json& device = object(record, "device_from");
  operand.device_from = {string(device, "name"), string(device, "role"),  string(device, "says"),
                         string(device, "kind"), string(device, "class"), strings(device, "devices")};
  for (const Json& size : array(record, "shape"))
    if (size.is_number_integer()) operand.shape.push_back(size.get<int64_t>());
  for (const Json& source : array(record, "computed_from"))
    if (source.is_object()) operand.computed_from.push_back(read_operand(source));
  operand.generator = flag(record, "generator");
  if (string(record, "argument").find('[') == std::string_view::npos) operand.position = integer(record, "position");
  // A kernel's parameter is no parameter of a module.
  if (record.contains("parameter") && operand.role == "parameter" && operand.names.empty()) operand.role = {};
  return operand;
}

bool calls_modules(const Frame& frame) {
  return frame.file.ends_with("torch/nn/modules/module.py") && frame.function.find("call_impl") != frame.function.npos;
}

}  // namespace

std::optional<size_t> innermost_project(const Stack& stack) {
  for (size_t index = 0; index < stack.size(); ++index) {
    if (stack[index].project) return index;
  }
  return std::nullopt;
}

const Frame* Event::line() const {
  if (stack.empty()) return nullptr;
  return &stack[innermost_project(stack).value_or(0)];
}

bool Operand::is_of_state() const {
  if (is_state() || !view_of.empty()) return true;
  const Frame* made = created.line();
  return made && made->function.ends_with("__init__") &&
         (made->source.find("register_buffer(") != made->source.npos ||
          made->source.find("nn.Parameter(") != made->source.npos);
}

Operand::Hidden Operand::hidden() const {
  const auto registered_by = [&](const Holder& module) {
    return std::any_of(held_by.begin(), held_by.end(), [&](const Chain& chain) {
      const auto from = std::find_if(chain.holders.begin(), chain.holders.end(),
                                     [&](const Holder& each) { return each.name == module.name; });
      return from != chain.holders.end() &&
             std::all_of(from, chain.holders.end(), [](const Holder& each) { return each.registers(); });
    });
  };
  const bool registered_at_last = std::any_of(held_by.begin(), held_by.end(), [](const Chain& chain) {
    return chain.holders.back().is_module() && chain.holders.back().registers();
  });
  for (const Chain& chain : held_by) {
    for (size_t index = 0; index < chain.holders.size(); ++index) {
      const Holder& holder = chain.holders[index];
      if (!holder.is_module() || holder.registers()) continue;
      if (registered_by(holder)) break;
      // A list of parameters beside the modules that have them, as DistributedDataParallel's: it moves with those.
      if (!chain.holders.back().is_module() && registered_at_last) break;
      return {&chain, index};
    }
  }
  return {};
}

const Event* Operand::placed() const {
  if (moved.known) return &moved;
  return created.known ? &created : nullptr;
}

const Operand& Operand::origin() const {
  if (placed() || expression.empty()) return *this;
  const auto there = std::find_if(computed_from.begin(), computed_from.end(),
                                  [](const Operand& source) { return source.placed() != nullptr; });
  return there == computed_from.end() ? *this : *there;
}

bool Operand::by_a_stale_device(const Operand& other) const {
  const auto& kept = origin().device_from;
  if (kept.role != "attribute") return false;
  // Its owner's own tensors were moved to where the other one is; or the other one has left the device that is kept.
  if (kept.kind == "module") return kept.devices.size() == 1 && kept.devices[0] == other.device;
  return other.is_state() && other.moved.from == device;
}

bool Operand::came_from_a_module() const {
  // The owner of a method may hold modules that the method had no use for.
  const bool by_a_module = !given_by.devices.empty() && given_by.kind != "owner";
  return Evidence::made_by_a_module(*this) || by_a_module ||
         std::any_of(computed_from.begin(), computed_from.end(),
                     [](const Operand& source) { return source.came_from_a_module() || source.came_from_state(); });
}

bool Operand::placed_by_choice() const {
  const Frame* made = created.line();
  return made && made->project && !on_cpu() && !moved.known && says_device(made->source) &&
         std::none_of(created.stack.begin(), created.stack.end(),
                      [](const Frame& frame) { return frame.function.ends_with("__init__"); });
}

bool Operand::came_from_state() const {
  return is_of_state() || std::any_of(computed_from.begin(), computed_from.end(),
                                      [](const Operand& source) { return source.came_from_state(); });
}

std::string_view Operand::name_in(size_t frame) const {
  for (const Name& each : names) {
    if (each.frame == frame) return each.name;
  }
  return {};
}

Evidence::Evidence(const Json& finding)
    : kind(string(finding, "kind")),
      operation(string(finding, "operation")),
      argument(string(finding, "argument")),
      message(string(finding, "message")),
      current_device(string(finding, "current_device")),
      note(string(finding, "note")),
      wanted_device(string(finding, "wanted_device")),
      devices(strings(finding, "devices")),
      device_count(integer(finding, "device_count")),
      handles(flag(finding, "handles")),
      thread(integer(finding, "thread")),
      stack(read_stack(array(finding, "python"))),
      native(read_stack(array(finding, "native"))),
      choice(read_choice(object(finding, "device_choice"))),
      copy{string(object(finding, "copy"), "direction"), string(object(finding, "copy"), "source"),
           string(object(finding, "copy"), "destination")} {
  const Json& library = object(finding, "library_call");
  handle_used = flag(library, "used");
  for (const Json& other : array(library, "other_handles"))
    if (other.is_object()) other_handles.push_back(read_event(other, "created"));
  // That the failing line made its own intermediate result says nothing of where that lies.
  const auto of_this_line = [&](const Event& event) {
    const auto own = innermost_project(stack);
    return event.known && event.line() && own && event.line()->same_line(stack[*own]);
  };
  for (const Json& record : array(finding, "operands")) {
    if (!record.is_object()) continue;
    Operand& operand = operands.emplace_back(read_operand(record));
    if (operand.expression.empty()) continue;
    for (Event* event : {&operand.created, &operand.moved})
      if (of_this_line(*event)) *event = Event{};
  }
  const auto frame_of = [](const Json& record) {
    return static_cast<size_t>(std::max<int64_t>(0, integer(record, "frame").value_or(0)));
  };
  for (const Json& module : array(finding, "modules")) {
    modules.push_back({frame_of(module), string(module, "class"), string(module, "hook"), strings(module, "devices"),
                       strings(module, "skip_keys"), read_parts(module, "parts"), flag(module, "replica")});
  }
  state_devices = strings(finding, "state_devices");
  const Json& refused = object(finding, "gradient");
  gradient = {string(refused, "function"),
              string(refused, "argument"),
              read_frame(object(refused, "forward")),
              read_frame(object(refused, "backward")),
              {}};
  for (const Json& hook : array(refused, "hooks"))
    if (hook.is_object()) gradient.hooks.push_back({string(hook, "tensor"), read_frame(hook)});
  for (const Json& mention : array(finding, "mentions"))
    mentions.push_back({frame_of(mention), string(mention, "name"), string(mention, "device")});
}

namespace {

void add_with_sources(const Operand& operand, size_t depth, std::vector<std::pair<size_t, const Operand*>>& out) {
  out.emplace_back(depth, &operand);
  for (const Operand& source : operand.computed_from) add_with_sources(source, depth + 1, out);
}

}  // namespace

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
  if (!it.moved.known || !it.moved.line() || it.on_cpu() || other.on_cpu()) return false;
  if (it.moved.from != other.device || it.device != current_device || it.moved.thread != thread) return false;
  const std::string_view line = it.moved.line()->source, said = it.device_from.says;
  const bool numbered = line.find("cuda:") != line.npos || said.find(':') != said.npos;
  return !numbered && has_state_on(other.device) && !has_state_on(it.device);
}

namespace {

// The class of a method, else the function itself.
std::string_view owner_of(const Frame& frame) {
  const size_t dot = frame.function.rfind('.');
  return dot == frame.function.npos ? frame.function : frame.function.substr(0, dot);
}

// `self.model = Net()`, and behind that `self.model.to(device)`, where the line in question or its neighbours say it.
bool says_where(const Frame& made) {
  const size_t begin = made.source.find_first_not_of(" \t"), equals = made.source.find(" = ");
  if (begin == made.source.npos || equals == made.source.npos || equals < begin) return false;
  const auto moves = [](std::string_view text) {
    return text.find(".to(") != text.npos || text.find(".cpu()") != text.npos;
  };
  if (moves(made.source.substr(equals))) return true;
  const std::string_view target = made.source.substr(begin, equals - begin);
  int64_t number = made.around.first;
  for (std::string_view rest = made.around.text; !rest.empty(); ++number) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
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
  if (state.moved.known) return std::none_of(state.moved.stack.begin(), state.moved.stack.end(), by_hooks);
  const Frame& here = stack[caller];
  return std::any_of(state.created.stack.begin(), state.created.stack.end(), [&](const Frame& made) {
    return made.file == here.file && owner_of(made) == owner_of(here) && says_where(made);
  });
}

bool Evidence::has_state_on(std::string_view device) const {
  return std::find(state_devices.begin(), state_devices.end(), device) != state_devices.end();
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
// when the tensor was made and when the operation was refused, unless a loop came by twice: so the frames further in
// must be of the model as well.
bool Evidence::made_inside_model(const Operand& operand) const {
  const Stack& made = operand.created.stack;
  const auto caller = caller_of_model();
  if (!caller || made.empty()) return false;
  const auto given = placed_before_call(*caller);
  if (given && operand.created.time && *operand.created.time < *given) return false;
  const size_t depth = stack.size() - *caller;  // frames from the outermost to the caller of the model
  if (made.size() <= depth) return false;
  for (size_t from_outside = 1; from_outside <= depth; ++from_outside) {
    const Frame& here = stack[stack.size() - from_outside];
    const Frame& there = made[made.size() - from_outside];
    if (from_outside == depth ? !here.same_line(there) : !here.same_function(there)) return false;
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

bool Evidence::made_by_a_module(const Operand& operand) {
  return std::any_of(operand.created.stack.begin(), operand.created.stack.end(), calls_modules);
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
