#include "report/verdict/cpp/memory.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "common/format.h"
#include "report/phrasing/cpp_source.h"
#include "report/phrasing/signature.h"
#include "report/verdict/cpp/device.h"
#include "report/verdict/cpp/line.h"
#include "report/verdict/cpp/origin.h"

namespace devtrace::report::verdict {
namespace {

constexpr std::string_view kEnablesPeer = "cudaDeviceEnablePeerAccess";

// A line of an allocation that others share is of a function that allocates for all of them, and right.
bool is_shared(const Frame& frame, const Operand& memory, const Evidence& evidence) {
  return std::any_of(evidence.operands.begin(), evidence.operands.end(), [&](const Operand& other) {
    if (&other == &memory || other.device == memory.device) return false;
    return std::any_of(other.created.native.begin(), other.created.native.end(),
                       [&](const Frame& each) { return each.same_line(frame); });
  });
}

// Two lines of one function call another one for memory, and differ in one argument: the line with the other's.
std::optional<Fix> as_the_others(const Operand& memory, const MemoryUser& user, const Evidence& evidence) {
  const auto& mine = memory.created.native;
  for (const Operand& other : evidence.operands) {
    if (other.device != user.device) continue;
    for (size_t i = 1; i < mine.size(); ++i) {
      const Frame &line = mine[i], &called = mine[i - 1];
      if (!line.project || !called.project) continue;
      const auto same = std::ranges::find_if(other.created.native, [&](const Frame& each) {
        return each.project && each.same_function(line) && each.line != line.line;
      });
      if (same == other.created.native.end() || same == other.created.native.begin()) continue;
      if (!std::prev(same)->same_function(called)) continue;
      const std::string name = unqualified_name(called.function);
      const auto call = report::only_call(line.source, name), others = report::only_call(same->source, name);
      if (!call || !others || call->arguments.size() != others->arguments.size()) continue;
      std::vector<size_t> differ;
      for (size_t at = 0; at < call->arguments.size(); ++at)
        if (call->arguments[at] != others->arguments[at]) differ.push_back(at);
      if (differ.size() == 1) return with_argument(line, name, differ[0], others->arguments[differ[0]]);
    }
  }
  return std::nullopt;
}

// Which device was current when it was allocated means nothing.
Cause on_the_device_of(const OwnerSaidBy& by, const Operand& memory, const MemoryUser& user) {
  return {"memory-of-another-device", Confidence::medium,
          fmt::format("{} is there because {} says so, whichever device is current. {} Other devices reach such memory "
                      "after {} alone.",
                      with_allocation(memory), by.what, user.where, by.opened_by),
          std::nullopt};
}

// The line that opened access one way, with the other way behind it.
std::optional<Fix> opened_both_ways(const Operand& memory) {
  const Frame* line = innermost_own(memory.opened.native);
  const auto call = line ? report::only_call(line->source, kEnablesPeer) : std::nullopt;
  if (!call || call->arguments.size() != 2 || !may_be_said_twice(call->arguments[0])) return std::nullopt;
  const DeviceChoice& chosen = memory.opened.choice;
  const Frame* chose = innermost_own(chosen.native);
  std::string from = chose && chose->same_function(*line) ? device_words({memory.device, chosen}, *line) : "";
  const std::string_view peer = call->arguments[0];
  std::string before;
  if (from.empty() || from == peer) {
    from = free_name(*line, "opened_from");
    before = fmt::format("int {0} = 0;\ncudaGetDevice(&{0});\n", from);
  }
  return around_statement(
      *line, before, fmt::format("cudaSetDevice({0});\n{2}({1}, 0);\ncudaSetDevice({1});", peer, from, kEnablesPeer));
}

Cause opened_one_way(const Operand& memory, const MemoryUser& user, Fix fix) {
  return {
      "memory-of-another-device", Confidence::high,
      fmt::format("Access was opened at {} for {} to the memory of {}, and not the other way round. {} {} is on {}.",
                  at(innermost_own(memory.opened.native)), memory.device, user.device, user.where,
                  with_allocation(memory), memory.device),
      repairing(std::move(fix))};
}

// Nothing is computed on the device that was chosen for it: the other one was meant.
std::optional<Fix> chosen_as_user(const Operand& memory, const MemoryUser& user) {
  const DeviceChoice& then = memory.created.choice;
  const Frame* line = innermost_own(then.native);
  if (!memory.only_loaded || !line) return std::nullopt;
  const auto& made = memory.created.native;
  const bool own =
      std::ranges::any_of(made, [&](const Frame& each) { return each.project && each.same_function(*line); });
  const WantedDevice wanted{user.device, user.choice, &then};
  const std::string words = device_words(wanted, *line);
  if (own && constructed(line->function).empty() && !words.empty())
    if (auto fix = with_argument(*line, "cudaSetDevice", 0, words)) return fix;
  return choose_before(made, wanted, nullptr, [](const Frame&) { return true; });
}

Cause by_default(const Evidence& evidence, const Operand& memory, const MemoryUser& user) {
  const DeviceChoice& then = memory.created.choice;
  const auto own_line = [&](const Frame& frame) { return frame.project && !is_shared(frame, memory, evidence); };
  const auto here =
      std::ranges::find_if(evidence.operands, [&](const Operand& it) { return it.device == user.device; });
  const bool said = here != evidence.operands.end() && here->created.choice.device == user.device;
  const auto& native = memory.created.native;
  const auto chosen_as = [&](const DeviceChoice& choice, const Frame* otherwise) {
    return choose_before(native, {user.device, choice, &then}, otherwise, own_line);
  };
  Cause cause{"missing-set-device", Confidence::high,
              fmt::format("{} is there because its thread had chosen no device: that is the first one. {}",
                          with_allocation(memory), user.where),
              std::nullopt};
  const Frame* line = innermost_outside_wrappers(memory.created);
  if (!line || !own_line(*line)) {
    const auto found = std::ranges::find_if(native, own_line);
    if (found == native.end()) return cause;
    line = &*found;
  }
  if (said) cause.fix = repairing(chosen_as(here->created.choice, nullptr));
  if (!cause.fix) cause.fix = repairing(chosen_as(user.choice, line));
  return cause;
}

}  // namespace

std::string with_allocation(const Operand& operand) {
  const Frame* frame = innermost_own(operand.created.native);
  const std::string where = at(frame);
  return where.empty() ? fmt::format("{} ({})", operand.name, operand.device)
                       : fmt::format("{} ({}, allocated at {})", operand.name, operand.device, where);
}

std::string chosen_where(const DeviceChoice& choice) {
  const std::string where = at(innermost_own(choice.native));
  return where.empty() ? "" : fmt::format(", since {}", where);
}

std::optional<Fix> opened_to_user(const Operand& memory, const MemoryUser& user) {
  const Frame* line = innermost_own(memory.opened.native);
  const auto call = line ? report::only_call(line->source, "cuMemSetAccess") : std::nullopt;
  if (!call || call->arguments.size() != 4 || !may_be_said_twice(call->arguments[0]) ||
      !may_be_said_twice(call->arguments[1]))
    return std::nullopt;
  const std::string words = device_words({user.device, user.choice}, *line);
  if (words.empty()) return std::nullopt;
  return around_statement(*line, "",
                          fmt::format("CUmemAccessDesc {0} = {{{{CU_MEM_LOCATION_TYPE_DEVICE, {{{1}}}}}, "
                                      "CU_MEM_ACCESS_FLAGS_PROT_READWRITE}};\ncuMemSetAccess({2}, {3}, &{0}, 1);",
                                      free_name(*line, "opened"), words, call->arguments[0], call->arguments[1]));
}

std::optional<Cause> memory_elsewhere(const Evidence& evidence, const Operand& memory, const MemoryUser& user) {
  const DeviceChoice& then = memory.created.choice;
  if (auto fix = opened_both_ways(memory)) return opened_one_way(memory, user, std::move(*fix));
  if (memory.on_cpu() || memory.created.native.empty() || !(then.by_default || !then.device.empty()))
    return std::nullopt;
  const std::string current = then.by_default ? "cuda:0" : then.device;
  if (const OwnerSaidBy* by = owner_said_by(memory.created.call); by && current != memory.device) {
    Cause cause = on_the_device_of(*by, memory, user);
    if (auto fix = opened_to_user(memory, user)) cause.fix = repairing(std::move(fix));
    return cause;
  }
  if (then.by_default) return by_default(evidence, memory, user);
  const Frame* line = innermost_own(evidence.native);
  Cause cause{
      "memory-of-another-device", Confidence::medium,
      fmt::format("{} was allocated while {} was current{}. {} Without access to its peer the {} cannot read it.",
                  with_allocation(memory), then.device, chosen_where(then), user.where, user.what),
      std::nullopt};
  if (auto fix = as_the_others(memory, user, evidence))
    cause.fix = repairing(std::move(fix));
  else if (auto chosen = chosen_as_user(memory, user)) {
    cause.because += fmt::format(" Nothing is computed on {}.", then.device);
    cause.fix = repairing(std::move(chosen));
  } else if (line && evidence.current_device == user.device)
    cause.fix = peer_access_before(*line, memory);
  return cause;
}

}  // namespace devtrace::report::verdict
