// Where a finding goes: the log, the page, stderr, the tally of `devtrace run`.
#pragma once

#include <cstdint>
#include <string>

#include "finding/finding.h"

namespace devtrace::log::publish {

// What is to be said of it on stderr; empty: nothing.
std::string finding(const finding::Finding& finding);

// How often a finding of the log has come.
void count(int id, const std::string& fingerprint, uint64_t count);

// Of the process's findings.
struct Totals {
  uint64_t all, notes, suppressed, dropped;
};
void write_end(const Totals& totals, int exit_code);  // -1: unknown

// Takes its own lock, with which no other may be taken: nobody may be reading stderr.
void print(const std::string& text);

void before_fork();
void after_fork();

}  // namespace devtrace::log::publish
