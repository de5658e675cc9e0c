// An object that is no module works on the device that its class takes where it is given none.
#include "common/format.h"
#include "report/verdict/rules.h"

namespace devtrace::report::verdict::rules {
namespace {

// What said the device, where that is what the object's class takes by itself. Null: it is not.
const finding::DeviceSource* by_its_class(const Operand& it) {
  const finding::DeviceSource& from = it.origin().device_from;
  if (it.is_of_state() || from.role != "attribute" || from.kind != "object" || from.otherwise.empty()) return nullptr;
  const auto says = [&](std::string_view word) { return from.otherwise.find(word) != from.otherwise.npos; };
  // `"cuda" if torch.cuda.is_available() else "cpu"` has both words, and means a GPU.
  const bool meant = it.on_cpu() ? says("cpu") && !says("cuda") : says("cuda");
  return meant && (from.otherwise.find("cuda:") == from.otherwise.npos || says(it.device)) ? &from : nullptr;
}

}  // namespace

std::optional<Cause> device_of_its_class(const Evidence& evidence) {
  const auto pair = evidence.pair([](const Operand& it) { return by_its_class(it) != nullptr; },
                                  [](const Operand& other) { return !other.on_cpu() && !by_its_class(other); });
  if (!pair) return std::nullopt;
  const finding::DeviceSource& from = *by_its_class(*pair.it);
  return Cause{"default-or-current-device", Confidence::low,
               fmt::format("{} lies where {} of a {} says, for which {} takes {} where nobody says one. It meets {}.",
                           with_place(pair.it->origin()), from.name, from.type, at(&from.bound), from.otherwise,
                           with_place(*pair.other)),
               use_site(evidence)};
}

}  // namespace devtrace::report::verdict::rules
