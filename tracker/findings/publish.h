// Where a finding goes: the log, the page, stderr, the tally of `devtrace run`.
#pragma once

#include "report/base/json.h"
#include "tracker/findings/occurrences.h"

namespace devtrace::findings::publish {

void finding(const report::Json& record, Severity severity);
void count(const Occurrences::Count& count);
void end(const Totals& totals, uint64_t dropped, int exit_code);  // -1: unknown

// The text on stderr. Takes its own lock, with which no other may be taken: nobody may be reading stderr.
void print_report(const report::Json& record);

void before_fork();
void after_fork();

}  // namespace devtrace::findings::publish
