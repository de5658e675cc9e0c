// What is known of the process itself.
#pragma once

#include <string>

#include "report/record/json.h"

namespace devtrace::log {

// The `process` record of docs/reference/log.md. Takes no GIL; asks CUDA only when the process already uses it.
report::Json process_record();

// Of the PyTorch that is loaded: "2.11.0+cu130"; empty when there is none or it does not say.
std::string torch_version();

}  // namespace devtrace::log
