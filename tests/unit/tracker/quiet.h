// Findings of a unit test: written to a log of its own without being de-duplicated, and read from there.
#pragma once

#include <vector>

#include "report/report.h"
#include "tracker/interface/platform.h"

namespace devtrace::test {

// To be called before main, as the first that asks for an option fixes them all: `const bool quiet = test::quiet();`
bool quiet();

// Device 0 is the current one, and nothing else is known. A test changes the answers that it is about, and sets them in
// its SetUpTestSuite: each suite has to run alone, too.
Platform platform_of_device_0();

std::vector<report::Json> records();
report::Json last_finding();

}  // namespace devtrace::test
