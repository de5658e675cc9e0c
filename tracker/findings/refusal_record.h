// Everything that is known about a refusal, as the log's `finding` record without id, fingerprint, cause and count.
#pragma once

#include <optional>

#include "report/base/json.h"
#include "tracker/interface/event_types.h"
#include "tracker/refusals/classify.h"
#include "tracker/refusals/recent_messages.h"

namespace devtrace::findings {

// `message`: the refusal's, parsed. Nothing when the evidence says that this was no refusal of mixed devices
// (likelihood `possible`). Takes the GIL, and does without where it does not come; holds no lock.
std::optional<report::Json> refusal_record(const events::Refused& refusal, const refusals::RefusalMessage& message,
                                           refusals::Repetition repetition);

}  // namespace devtrace::findings
