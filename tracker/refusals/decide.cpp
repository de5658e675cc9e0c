#include "tracker/refusals/decide.h"

#include <algorithm>

namespace devtrace::refusals {
namespace {

using Devices = std::vector<std::string>;

// Does a tensor there answer to what a message calls a device? "cuda" is any of CUDA's.
bool lies(const std::string& device, const std::string& said) {
  return device == said || (said == "cuda" && device.starts_with("cuda:"));
}

// Once each, and only devices that are one.
void add(Devices& devices, const std::string& name) {
  if (name.empty() || name == "cuda" || name == "unknown" || std::ranges::count(devices, name) > 0) return;
  devices.push_back(name);
}

// Of a known refusal only those operands count that lie where it says that they do; the one that should be elsewhere is
// the mismatched one.
void keep_those_meant(const KnownMatch& known, const Facts& facts, std::vector<Decision::Operand>& operands) {
  const auto device = [&](const Decision::Operand& each) -> const std::string& {
    return facts.operands[each.index].device;
  };
  const auto at = [&](const Decision::Operand& each) { return lies(device(each), known.at); };
  if (known.at.empty() && known.row->of_group && !known.wanted.empty())
    for (Decision::Operand& each : operands) each.mismatched = !lies(device(each), known.wanted);
  if (known.at.empty() || std::ranges::none_of(operands, at)) return;
  // With a device of the message's own there is a second operand; a place where the operation works has none.
  const bool second = !known.wanted.empty() && known.row->wanted.empty();
  std::erase_if(operands, [&](const auto& each) { return !at(each) && !(second && lies(device(each), known.wanted)); });
  if (std::ranges::count_if(operands, at) == 1) std::ranges::find_if(operands, at)->mismatched = true;
}

std::vector<Decision::Operand> operands_of(const RefusalMessage& message, const Facts& facts) {
  std::vector<Decision::Operand> operands;
  for (size_t i = 0; i < facts.operands.size(); ++i) operands.push_back({i, facts.operands[i].mismatched});
  if (facts.complete) return operands;
  if (message.known) keep_those_meant(*message.known, facts, operands);
  if (!message.without_kernel.empty() && operands.size() == 1) operands[0].mismatched = true;
  return operands;
}

// Whether operands on different devices can be what an error is about that only speaks of devices.
bool mixes_devices(const RefusalMessage& message, const Facts& facts, const Devices& of_operands) {
  std::set<std::string> devices = facts.mentioned_devices;
  devices.insert(of_operands.begin(), of_operands.end());
  if (!message.without_kernel.empty())
    return std::ranges::any_of(devices, [](const auto& each) { return lies(each, "cuda"); });
  if (devices.size() >= 2 || message.devices_of_operands.size() >= 2) return true;
  return devices.empty() && message.devices_named.size() >= 2;
}

bool is_refusal(const events::Refused& refusal, const RefusalMessage& message, const Facts& facts,
                const Devices& of_operands) {
  if (facts.rephrases) return false;
  if (message.known) return !message.known->row->handles || facts.named_devices.size() >= 2;
  if (message.catalogued && !facts.raised_by_program) return true;
  if (refusal.raised == events::Raised::checked)
    return message.likelihood == Likelihood::certain || mixes_devices(message, facts, of_operands);
  // Words are no evidence: anybody may have written them.
  return std::set<std::string>(of_operands.begin(), of_operands.end()).size() >= 2;
}

// {"aten::add", "Tensor"} for "aten.add.Tensor".
Operation dotted(std::string_view name) {
  name.remove_prefix(kDotted.size());
  const size_t dot = std::min(name.find('.'), name.size());
  const std::string_view overload = name.substr(std::min(dot + 1, name.size()));
  return {"aten::" + std::string(name.substr(0, dot)), overload == "default" ? "" : std::string(overload)};
}

Operation operation_of(const RefusalMessage& message, const Facts& facts) {
  const std::string said = message.known ? message.known->operation : "";
  const bool is_dotted = said.starts_with(kDotted);
  if (!facts.asked.name.empty() && (said.empty() || is_dotted)) return facts.asked;
  // A generator was given to the operator that the program called: torch.randperm(), and not what that draws with.
  if (!message.generator_wanted.empty() && !facts.outermost.name.empty()) return facts.outermost;
  if (!facts.at_work.name.empty() || !facts.torch_read) return facts.at_work;
  if (!facts.jitted.empty()) return {facts.jitted, ""};
  if (is_dotted) return dotted(said);
  if (!said.empty()) return {said, ""};
  if (!message.without_kernel.empty()) return {message.without_kernel, ""};
  return facts.calling.name.empty() ? Operation{facts.called, ""} : facts.calling;
}

std::string argument_of(const events::Refused& refusal, const RefusalMessage& message) {
  if (!refusal.argument.empty()) return std::string(refusal.argument);
  if (message.argument.empty() && message.known) return std::string(message.known->row->argument);
  return message.argument;
}

// What lies on one device alone was refused for what the call says of another, if it says any.
void add_named_by_call(const RefusalMessage& message, const Facts& facts, Devices& devices) {
  if (!message.known && !message.catalogued) return;
  const bool ordinal = message.known && message.known->row->ordinal;
  const bool message_names_all = message.known && message.known->row->no_tensor && !message.known->at.empty();
  if (message_names_all) return;
  for (const std::string& device : facts.named_devices) {
    const bool is_there = device == "cuda" || std::ranges::count(facts.devices, device) > 0;
    if (!ordinal || !is_there) add(devices, device == "cuda" ? facts.cuda : device);
  }
}

void decide_devices(const events::Refused& refusal, const RefusalMessage& message, const Facts& facts,
                    const Devices& of_operands, Decision& out) {
  for (const std::string& device : of_operands) add(out.devices, device);
  for (const std::string& device : message.devices_of_operands) add(out.devices, device);
  add(out.devices, refusal.common.name());
  add(out.devices, refusal.mismatched.name());
  const auto& known = message.known;
  if (known) add(out.devices, known->at);
  if (out.devices.size() < 2) add_named_by_call(message, facts, out.devices);
  if (known) {
    // "cuda" is the device that is current. Where nothing is known to lie elsewhere, it says nothing.
    if (!out.devices.empty()) add(out.devices, known->wanted == "cuda" ? facts.cuda : known->wanted);
    out.wanted_device = known->wanted;
  }
  // Operands of one device only: it is the CPU that they should be on.
  const bool lacks_kernel_of_one_device =
      !message.without_kernel.empty() && std::ranges::count(of_operands, "cpu") == 0;
  if (message.wants_cpu || lacks_kernel_of_one_device) {
    add(out.devices, "cpu");
    out.wanted_device = "cpu";
  }
  // "expected its indices to be on cpu": what a message names otherwise may be where nothing lies.
  if (out.devices.size() < 2 && !known)
    for (const std::string& device : message.devices_named) add(out.devices, device);
}

}  // namespace

Decision decide(const events::Refused& refusal, const RefusalMessage& message, const Facts& facts) {
  Decision decision;
  decision.operands = operands_of(message, facts);
  Devices of_operands;
  for (const Decision::Operand& each : decision.operands) of_operands.push_back(facts.operands[each.index].device);
  decision.refusal = is_refusal(refusal, message, facts, of_operands);
  if (!decision.refusal) return decision;
  // PyTorch's own checks always were faults, whoever runs into them.
  if (message.known || refusal.raised != events::Raised::checked) decision.note = facts.swallowed;
  decision.operation = operation_of(message, facts);
  decision.method = refusal.method.empty() ? message.method : std::string(refusal.method);
  decision.argument = argument_of(refusal, message);
  decide_devices(refusal, message, facts, of_operands, decision);
  decision.handles = message.known && message.known->row->handles;
  if (message.known && message.known->row->ordinal) decision.device_count = facts.devices.size();
  return decision;
}

}  // namespace devtrace::refusals
