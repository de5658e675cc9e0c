// What moves between devices, and from the host to them and back: bytes and copies by call site.
#pragma once

#include "tracker/memory/copy_ends.h"
#include "tracker/stacks/stacks.h"

namespace devtrace::copy::traffic {

// Hot: no malloc, no lock. A copy within one device is no traffic, nor is one of which an end is not known. When
// `traffic_interval` seconds have passed, one of the copies writes what has grown since: it may be as slow as a
// finding.
void count(const events::Copy& copy, const memory::CopyEnds& ends, stacks::OnePythonStack& stack);

// What collectives bring to a device from the other ranks of its communicator: `from` of these records is "ranks".
void count_from_ranks(Device to, uint64_t bytes, stacks::OnePythonStack& stack);

uint64_t site_from_ranks(Device to, stacks::OnePythonStack& stack);

// The same in parts, for copies that are made again and again. site_of(): the counters' key of who copies now
// between which devices, 0 where that is no traffic. add(): so many copies more under a key, true when it is time to
// write. Then write_if_due().
uint64_t site_of(const events::Copy& copy, stacks::OnePythonStack& stack);
bool add(uint64_t site, uint64_t bytes, uint64_t copies);
void write_if_due();

// The log's `traffic` records (docs/reference/log.md) of what has moved since they were written last; all of it goes to
// the HTML report, if there is one. Does not begin a log.
void write_rest();

void before_fork();
void after_fork(bool child);

}  // namespace devtrace::copy::traffic
