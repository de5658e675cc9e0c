// From an event worth reporting to a line in the log, a text on stderr and a page on disk.
#pragma once

#include <cstdint>

#include "tracker/findings/misplaced.h"
#include "tracker/interface/event_types.h"

namespace devtrace::findings {

// Gathers evidence, unless the same call made the same finding before, and reports. Returns when everything is on disk.
void report(const events::Refused& refusal);
void report(const MisplacedLaunch& launch);
void report(const MisplacedCopy& copy);
void report(const MisplacedLibraryCall& call);

// Occurrences so far in this process, dropped ones included; and those of them that are neither notes nor suppressed.
uint64_t count();
uint64_t faults();
// Those of the finding with that id in the log (1, 2, …), 0 for none and with dedupe=0.
uint64_t occurrences_of(uint64_t id);

// What else has to be in the log before its end record: called in finish, under the lock of findings.
void set_exit_writer(void (*write)());

// Writes the counts and what else the log lacks; the process goes on.
void flush();

// Writes the counts and the end record; the process ends with `exit_code` (-1: unknown). Once only.
void finish(int exit_code);

void before_fork();
void after_fork(bool child);

}  // namespace devtrace::findings
