// What a refusal leaves behind besides its text: gathered from Python, C++ and the thread. Nothing is decided here.
#pragma once

#include "finding/finding.h"
#include "tracker/interface/event_types.h"
#include "tracker/refusals/decide.h"
#include "tracker/refusals/recent_messages.h"

namespace devtrace::findings {

struct RefusalEvidence {
  refusals::Facts facts;
  finding::Finding finding;  // its operands are those of the facts
};

// Takes the GIL, and does without where it does not come; holds no lock.
RefusalEvidence refusal_evidence(const events::Refused& refusal, const refusals::RefusalMessage& message,
                                 refusals::Repetition repetition);

}  // namespace devtrace::findings
