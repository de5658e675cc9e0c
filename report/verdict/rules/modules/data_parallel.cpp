// nn.DataParallel copies parameters and buffers to each replica's device, and nothing else.
#include <algorithm>

#include "common/format.h"
#include "report/verdict/edits/earlier_line.h"
#include "report/verdict/rules.h"
#include "report/verdict/source/source_line.h"

namespace devtrace::report::verdict::rules {
namespace {

constexpr std::string_view kReplicasRun = "/torch/nn/parallel/parallel_apply.py";

// A replica's attribute that means the original: replica → [partial →] method or function with a closure → the
// original, which holds the operand.
struct Bound {
  const Chain* chain = nullptr;
  size_t replica = 0, method = 0;
  const Holder& at(size_t index) const { return chain->holders[index]; }
};

std::optional<Bound> bound_to_the_original(const Operand& operand) {
  for (const Chain& chain : operand.held_by) {
    for (size_t index = 0; index + 2 < chain.holders.size(); ++index) {
      if (!chain.holders[index].replica || chain.holders[index].holds != "attribute") continue;
      const size_t method = index + (chain.holders[index + 1].kind == "partial" ? 2 : 1);
      if (method + 1 >= chain.holders.size()) continue;
      const Holder& callable = chain.holders[method];
      if (callable.kind != "method" && (callable.kind != "function" || callable.holds != "cell")) continue;
      if (chain.holders[method + 1].is_module() && !chain.holders[method + 1].replica)
        return Bound{&chain, index, method};
    }
  }
  return std::nullopt;
}

// The replica's own method in place of the one that is bound to the original, in the frame that the replica runs.
std::optional<Fix> call_own_method(const Evidence& evidence, const Bound& bound) {
  const std::string_view holder = bound.at(bound.replica).name, attribute = bound.at(bound.replica + 1).name;
  if (!attribute.starts_with(holder) || bound.at(bound.method).function.empty()) return std::nullopt;
  const std::string through = fmt::format("self{}", attribute.substr(holder.size()));
  if (bound.at(bound.method).kind != "method") return std::nullopt;
  const bool partial = bound.method == bound.replica + 2;
  for (const finding::RunningModule& module : evidence.refusal.modules) {
    if (!module.replica || module.frame >= evidence.stack.size() || !evidence.stack[module.frame].project) continue;
    const Frame& frame = evidence.stack[module.frame];
    auto code = call_instead(frame.source, through, fmt::format("self.{}", bound.at(bound.method).function),
                             partial ? fmt::format("**{}.keywords", through) : "");
    if (code) return repair_of(frame, std::move(*code));
  }
  return std::nullopt;
}

// The innermost line of the user's that a replica runs.
const Frame* line_of_the_replica(const Evidence& evidence) {
  for (const finding::RunningModule& module : evidence.refusal.modules)
    if (module.replica && module.frame < evidence.stack.size() && evidence.stack[module.frame].project)
      return &evidence.stack[module.frame];
  return nullptr;
}

std::optional<Fix> in_the_replica(const Evidence& evidence) {
  const Frame* line = line_of_the_replica(evidence);
  return line ? std::optional(repair_of(*line, {})) : std::nullopt;
}

std::optional<Cause> of_the_original(const Evidence& evidence) {
  const auto pair =
      evidence.pair([](const Operand& it) { return bound_to_the_original(it).has_value(); },
                    [](const Operand& other) { return !bound_to_the_original(other) && !other.is_state(); });
  // The replica on the first device has the original's parameters: they are at home there.
  if (!pair || evidence.current_device == pair.it->device) return std::nullopt;
  const Bound bound = *bound_to_the_original(*pair.it);
  auto own = call_own_method(evidence, bound);
  const Holder &replica = bound.at(bound.replica), &method = bound.at(bound.method);
  // `self._args[1].fc_forward` of a thread's frame: what the program calls it.
  const std::string_view attribute = bound.at(bound.replica + 1).name;
  const std::string name = attribute.starts_with(replica.name)
                               ? fmt::format("self{}", attribute.substr(replica.name.size()))
                               : std::string(attribute);
  const std::string means =
      method.kind == "function" ? fmt::format("{} is a function whose self is the module that was copied", name)
      : method.function.empty() ? fmt::format("{} is bound to a method of the module that was copied", name)
                                : fmt::format("{} is bound to {} of the module that was copied", name, method.function);
  return Cause{"data-parallel", Confidence::high,
               fmt::format("{}, and not {}: nn.DataParallel copies such an attribute as it is. So {} meets {} here.",
                           means, method.kind == "function" ? "the replica" : "the replica's own", with_place(*pair.it),
                           with_place(*pair.other)),
               own ? own : in_the_replica(evidence)};
}

// A module of the original that a replica has in a list, a dict or an object: where the chain leaves the replica.
struct Shared {
  const Chain* chain = nullptr;
  size_t replica = 0;
  const Holder& at(size_t index) const { return chain->holders[index]; }
};

std::optional<Shared> shared_with_the_original(const Operand& operand) {
  if (!operand.is_state()) return std::nullopt;
  for (const Chain& chain : operand.held_by) {
    for (size_t index = 0; index + 2 < chain.holders.size(); ++index) {
      if (!chain.holders[index].replica || chain.holders[index].holds != "attribute") continue;
      const auto begin = chain.holders.begin() + static_cast<ptrdiff_t>(index) + 1;
      const auto module = std::find_if(begin, chain.holders.end(), [](const Holder& each) { return each.is_module(); });
      if (module != chain.holders.end() && module != begin && !module->replica) return Shared{&chain, index};
    }
  }
  return std::nullopt;
}

std::optional<Cause> part_of_the_original(const Evidence& evidence) {
  const auto pair =
      evidence.pair([](const Operand& it) { return shared_with_the_original(it).has_value(); },
                    [](const Operand& other) { return !other.is_state() && !shared_with_the_original(other); });
  if (!pair || evidence.current_device == pair.it->device) return std::nullopt;
  const Shared shared = *shared_with_the_original(*pair.it);
  const Holder &replica = shared.at(shared.replica), &inner = shared.at(shared.replica + 1);
  const std::string attribute = inner.name.substr(std::min(inner.name.rfind('.') + 1, inner.name.size()));
  auto fix = register_modules(*shared.chain, shared.replica, *pair.it);
  return Cause{"data-parallel", Confidence::high,
               fmt::format("A replica of {} has in {} ({}) what the module that was copied has there, and not its own: "
                           "nn.DataParallel copies such an attribute as it is. So {} meets {} here.",
                           replica.type, attribute, inner.kind == "object" ? inner.type : "a plain " + inner.kind,
                           with_place(*pair.it), with_place(*pair.other)),
               fix ? fix : in_the_replica(evidence)};
}

// Did nn.DataParallel itself bring it to the replica's device?
bool was_copied(const Operand& operand) {
  const Event* placed = operand.placed();
  return placed && std::any_of(placed->stack.begin(), placed->stack.end(), [](const Frame& frame) {
           return frame.file.find("/torch/nn/parallel/") != frame.file.npos &&
                  (frame.function == "replicate" || frame.function == "scatter");
         });
}

// Does a replica have it as a plain attribute? … or within one? What is computed in a replica's call lies where that
// is.
bool is_attribute(const Operand& operand) {
  if (was_copied(operand) || operand.is_state()) return false;
  return operand.role == "attribute" ||
         std::any_of(operand.held_by.begin(), operand.held_by.end(), [](const Chain& chain) {
           return chain.holders.back().replica && chain.holders.back().holds == "attribute";
         });
}

bool is_in_an_attribute(const Operand& operand) {
  if (was_copied(operand) || operand.is_state() || made_by_a_module(operand)) return false;
  return std::any_of(operand.held_by.begin(), operand.held_by.end(), [](const Chain& chain) {
    return std::any_of(chain.holders.begin(), chain.holders.end(),
                       [](const Holder& each) { return each.replica && each.holds == "attribute"; });
  });
}

// "module must have its parameters and buffers on device cuda:0 (device_ids[0]) but found one of them on device: …"
std::optional<Cause> not_on_the_first(const Evidence& evidence) {
  if (!evidence.message.starts_with("module must have its parameters and buffers on device ")) return std::nullopt;
  const auto it = std::find_if(evidence.operands.begin(), evidence.operands.end(),
                               [](const Operand& each) { return each.mismatched; });
  if (it == evidence.operands.end() || evidence.refusal.wanted_device.empty()) return std::nullopt;
  Cause cause{"data-parallel", Confidence::high,
              fmt::format("nn.DataParallel copies the module from its first device, {}, and {} of it is not there.",
                          evidence.refusal.wanted_device, with_place(*it)),
              std::nullopt};
  // DataParallel.to() moves the module that it holds.
  for (const finding::Name& name : it->names) {
    if (name.frame >= evidence.stack.size() || !evidence.stack[name.frame].project || cause.fix) continue;
    const Frame& frame = evidence.stack[name.frame];
    const std::string_view wrapper = std::string_view(name.name).substr(0, name.name.find(".module."));
    if (wrapper.size() == name.name.size() || !is_reference(wrapper)) continue;
    const std::string moved = fmt::format("{0}.to({0}.src_device_obj)", wrapper);
    if (auto code = call_instead(frame.source, wrapper, moved, "")) cause.fix = line_fix(frame, std::move(*code));
  }
  return cause;
}

// "DistributedDataParallel device_ids and output_device arguments only work with …, but got device_ids [0], …"
std::optional<Cause> not_on_the_ranks_device(const Evidence& evidence) {
  constexpr std::string_view kIds = "got device_ids [";
  const size_t at = evidence.message.find(kIds);
  const auto frame = innermost_project(evidence.stack);
  if (!evidence.operation.ends_with("DistributedDataParallel") || at == evidence.message.npos || !frame)
    return std::nullopt;
  const size_t begin = at + kIds.size();
  const std::string device =
      fmt::format("cuda:{}", evidence.message.substr(begin, evidence.message.find_first_of(",]", begin) - begin));
  const auto it = std::find_if(evidence.operands.begin(), evidence.operands.end(),
                               [&](const Operand& each) { return each.is_state() && each.device != device; });
  if (it == evidence.operands.end() || it->root_devices.size() > 1) return std::nullopt;  // or it is spread on purpose
  Cause cause{
      "data-parallel", Confidence::high,
      fmt::format("DistributedDataParallel is told that the module is on {}, its device_ids, and {} of it is on {}: "
                  "it moves no parameters, whoever wraps a module moves it first.",
                  device, with_place(*it), it->device),
      std::nullopt};
  const Frame& line = evidence.stack[*frame];
  cause.fix = repair_of(line, {});
  const std::string_view name = it->name_in(*frame);
  if (!name.ends_with("." + it->module_path)) return cause;
  const std::string_view module = name.substr(0, name.size() - it->module_path.size() - 1);
  const std::string_view known = expression_of(evidence, *frame, device);
  const std::string where = known.empty() ? fmt::format("\"{}\"", device) : std::string(known);
  if (auto code = replace_read(line.source, module, fmt::format("{}.to({})", module, where)))
    cause.fix = repair_of(line, std::move(*code));
  return cause;
}

bool passes(const Stack& stack, std::string_view file) {
  return std::ranges::any_of(stack, [&](const Frame& frame) { return !frame.project && frame.file.ends_with(file); });
}

// Did DistributedDataParallel bring it to the device of its device_ids, which is not the one of its module?
bool brought_by_the_wrapper(const Operand& it) {
  return passes(it.moved.stack, "/torch/nn/parallel/distributed.py");
}

std::optional<Cause> wrapped_elsewhere(const Evidence& evidence) {
  const auto pair = evidence.pair(brought_by_the_wrapper, [](const Operand& other) { return other.is_state(); });
  if (!pair || pair.other->root_devices.size() > 1) return std::nullopt;
  return Cause{"data-parallel", Confidence::high,
               fmt::format("DistributedDataParallel brings what it is given to {}, its device_ids, and its module is "
                           "on {} ({}): device_ids has to say the rank's own device, or nothing.",
                           pair.it->device, pair.other->device, pair.other->name),
               std::nullopt};
}

// Each was computed by a replica on a device of its own, and a subclass of nn.DataParallel, as of a criterion that is
// in parallel, too, has gathered nothing.
std::optional<Cause> of_two_replicas(const Evidence& evidence) {
  const auto by_a_replica = [](const Operand& it) { return passes(it.created.stack, kReplicasRun); };
  const auto pair = evidence.pair(by_a_replica, by_a_replica);
  if (!pair || evidence.passes_through(kReplicasRun)) return std::nullopt;
  return Cause{"data-parallel", Confidence::medium,
               fmt::format("{} and {} were computed by two replicas of nn.DataParallel, each on its own device, and "
                           "nothing has gathered them.",
                           with_place(*pair.it), with_place(*pair.other)),
               use_site(evidence)};
}

}  // namespace

std::optional<Cause> data_parallel(const Evidence& evidence) {
  if (auto cause = not_on_the_ranks_device(evidence)) return cause;
  if (auto cause = not_on_the_first(evidence)) return cause;
  if (auto cause = wrapped_elsewhere(evidence)) return cause;
  if (auto cause = of_two_replicas(evidence)) return cause;
  if (!evidence.passes_through(kReplicasRun) && !evidence.passes_through("/torch/nn/parallel/data_parallel.py")) {
    return std::nullopt;
  }
  if (auto cause = of_the_original(evidence)) return cause;
  if (auto cause = part_of_the_original(evidence)) return cause;
  const auto any = [](const Operand&) { return true; };
  auto pair = evidence.pair(is_attribute, any);
  if (!pair) pair = evidence.pair(is_in_an_attribute, any);
  if (!pair) pair = evidence.pair([](const Operand& it) { return !it.is_state() && !was_copied(it); }, any);
  if (!pair) pair = evidence.pair([](const Operand& it) { return !it.is_state(); }, any);
  if (!pair) return std::nullopt;
  const bool attribute = is_attribute(*pair.it);
  const auto in_words = [&](const std::optional<Fix>& fix) {
    return fix && fix->code.find(fmt::format(".to(\"{}\")", pair.other->device)) == fix->code.npos;
  };
  const Frame* made = pair.it->created.line();
  const bool stayed =
      !pair.it->moved.known() || (made && pair.it->moved.line() && made->same_line(*pair.it->moved.line()));
  std::optional<Fix> fix;
  if (attribute && made && made->project && made->function.ends_with("__init__") && stayed)
    fix = register_buffer(*made, *pair.it);
  // Each replica has another device: a line with its number repairs one of them.
  if (!fix) fix = move_where_named(evidence, *pair.it, *pair.other);
  if (fix && fix->repairs == Repairs::line && !in_words(fix)) fix.reset();
  return Cause{"data-parallel", attribute ? Confidence::high : Confidence::medium,
               fmt::format("{} meets {} in a replica of nn.DataParallel, which copies parameters and buffers to its "
                           "device and leaves other tensors where they are.",
                           with_place(*pair.it), with_place(*pair.other)),
               std::move(fix)};
}

}  // namespace devtrace::report::verdict::rules
