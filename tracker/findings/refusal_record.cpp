#include "tracker/findings/refusal_record.h"

#include <algorithm>

#include "tracker/base/options.h"
#include "tracker/findings/operand_json.h"
#include "tracker/findings/refusal_evidence.h"
#include "tracker/interface/platform.h"
#include "tracker/log/record_fields.h"
#include "tracker/refusals/decide.h"

namespace devtrace::findings {
namespace {

using namespace log::record_fields;

std::string first_line(std::string_view text) {
  constexpr size_t kLongest = 4000;
  return std::string(text.substr(0, std::min(text.find('\n'), kLongest)));
}

}  // namespace

std::optional<Json> refusal_record(const events::Refused& refusal, const refusals::RefusalMessage& message,
                                   refusals::Repetition repetition) {
  RefusalEvidence evidence = refusal_evidence(refusal, message, repetition);
  refusals::Decision decision = refusals::decide(refusal, message, evidence.facts);
  if (!decision.refusal) return std::nullopt;

  Json record = begin("refused-op");
  if (decision.note) {
    record["severity"] = "note";
    record["note"] = *decision.note;
  }
  record["message"] = first_line(refusal.message);
  add(record, "operation", decision.operation.name);
  add(record, "overload", decision.operation.overload);
  add(record, "method", decision.method);
  add(record, "argument", decision.argument);
  if (const int device = platform().current_device(); device >= 0)
    record["current_device"] = Device::cuda(device).name();
  add(record, "wanted_device", decision.wanted_device);
  if (decision.handles) record["handles"] = true;
  if (decision.device_count) record["device_count"] = *decision.device_count;
  record["devices"] = decision.devices;
  for (const auto& [index, mismatched] : decision.operands)
    record["operands"].push_back(with_odd(std::move(evidence.operands[index]), mismatched));
  record.update(evidence.history);
  record.update(evidence.surroundings);
  if (!evidence.gradient.is_null()) record["gradient"] = std::move(evidence.gradient);
  add(record, "incomplete", evidence.incomplete);
  if (evidence.waiting) record["waiting"] = true;
  record["python"] = std::move(evidence.python);
  if (options().native) record["native"] = std::move(evidence.native);
  return record;
}

}  // namespace devtrace::findings
