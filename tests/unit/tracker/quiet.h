// Findings of a unit test: written to a log of its own without being de-duplicated, and read from there.
#pragma once

#include <string>
#include <vector>

#include "report/record/json.h"
#include "tracker/interface/platform.h"

namespace devtrace::test {

// To be called before main, as the first that asks for an option fixes them all: `const bool quiet = test::quiet();`
bool quiet();

// Device 0 is the current one, and nothing else is known. A test changes the answers that it is about, and sets them in
// its SetUpTestSuite: each suite has to run alone, too.
inline Platform platform_of_device_0() {
  return {.current_device = [] { return 0; },
          .cuda_version = [] { return std::string(); },
          .devices = [] { return std::vector<DeviceFacts>(); },
          .backend = [] { return "interpose"; },
          .simulated = [] { return true; },
          .symbol = [](const char*, const char*) -> void* { return nullptr; },
          .uses_of_parameters = [](const void*, const std::string&) { return WordUses(); },
          .memory_at = [](uint64_t, Extent&) { return Platform::Answer::none; },
          .capturing = [](const void*) { return false; },
          .host_within_reach = [](int, uintptr_t) { return true; },
          .peer_possible = [](int, int) { return true; },
          .before_fork = [] {},
          .after_fork = [](bool) {},
          .before_end = [] {}};
}

std::vector<report::Json> records();
report::Json last_finding();

}  // namespace devtrace::test
