// What a refusal leaves behind besides its text: gathered from Python, C++ and the thread. Nothing is decided here.
#pragma once

#include <string>
#include <vector>

#include "report/base/json.h"
#include "tracker/interface/event_types.h"
#include "tracker/refusals/decide.h"
#include "tracker/refusals/recent_messages.h"

namespace devtrace::findings {

struct RefusalEvidence {
  refusals::Facts facts;
  std::vector<report::Json> operands;  // those of the facts, without `odd`
  report::Json python = report::Json::array();
  report::Json native = report::Json::array();
  report::Json gradient;
  report::Json history = report::Json::object();       // `device_changes`, if there were any
  report::Json surroundings = report::Json::object();  // `state_devices`, `modules` and `mentions`
  bool waiting = false;                                // `python` is of the thread that waits for this one
  std::string incomplete;                              // what is not there, and why
};

// Takes the GIL, and does without where it does not come; holds no lock.
RefusalEvidence refusal_evidence(const events::Refused& refusal, const refusals::RefusalMessage& message,
                                 refusals::Repetition repetition);

}  // namespace devtrace::findings
