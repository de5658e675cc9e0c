// Findings of a unit test: written to a log of its own without being de-duplicated, and read from there.
#pragma once

#include <vector>

#include "report/report.h"

namespace devtrace::test {

// To be called before main, as the first that asks for an option fixes them all: `const bool quiet = test::quiet();`
bool quiet();

// The runtime knows device 0 as the current one, and nothing else.
void answer_as_device_0();

std::vector<report::Json> records();
report::Json last_finding();

}  // namespace devtrace::test
