// A device kept in an attribute: .to() of the model changes the model and not what somebody wrote down about it.
#include "report/base/format.h"
#include "report/verdict/rules.h"

namespace devtrace::report::verdict::rules {

std::optional<Cause> kept_device(const Evidence& evidence) {
  const auto pair = evidence.pair([](const Operand& it) { return it.device_from.role == "attribute"; },
                                  [](const Operand&) { return true; });
  if (!pair) return std::nullopt;
  const auto& kept = pair.it->device_from;
  const bool module = kept.kind == "module";
  // Its own tensors were moved to where the other one is; or the other one left the device that is kept.
  const bool stale = module ? kept.devices.size() == 1 && kept.devices[0] == pair.other->device
                            : pair.other->is_state() && pair.other->moved.from == pair.it->device;
  if (!stale) return std::nullopt;
  return Cause{
      module ? "state-not-registered" : "cached-state-elsewhere", Confidence::medium,
      fmt::format("{} lies where {} says, a plain attribute of {} that no .to() changes, and {} was moved away from "
                  "there: {}.",
                  with_place(*pair.it), kept.name, kept.type,
                  module ? "the module itself" : std::string(pair.other->name), with_place(*pair.other)),
      use_site(evidence)};
}

}  // namespace devtrace::report::verdict::rules
