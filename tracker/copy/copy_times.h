// How long copies between devices took, where the device itself says so (CUPTI's activity records). A copy's time comes
// long after the call: until then the site that is to be credited with it is remembered by the call's number.
#pragma once

#include <cstdint>
#include <unordered_map>

namespace devtrace::copy::copy_times {

// Hot: the copy with this number (not 0) is counted under `site`, a key of the traffic counters; 0: it is no traffic.
// Of more copies under way than there is room for, the oldest are never timed.
void expect(uint32_t correlation_id, uint64_t site);

// The same of each of several copies that one call makes: they are timed together, and so only if all are one site's.
void expect_one_of_several(uint32_t correlation_id, uint64_t site);

// A call's copies, or some of them, took so long. Of a number that nobody expects nothing is kept.
void took(uint32_t correlation_id, uint64_t bytes, uint64_t nanoseconds);

struct Total {
  uint64_t copies = 0;
  uint64_t bytes = 0;
  uint64_t nanoseconds = 0;
};
std::unordered_map<uint64_t, Total> totals();  // by site

// In a fork's child: the parent's copies are the parent's.
void clear();

}  // namespace devtrace::copy::copy_times
