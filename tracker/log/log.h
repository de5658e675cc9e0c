// The log and the HTML report on disk: opened late, one whole line a write, closed between writes.
#pragma once

#include <string>

#include "report/record/json.h"

namespace devtrace::log {

// The process record, made on first use and kept.
const report::Json& process();

// The process's, as that record has it: relative paths are meant from there.
std::string working_directory();

// Writes the process record if that has not been done; the log exists from then on (or has been complained about,
// once). Takes no GIL. Slow the first time, a load afterwards.
void open();
bool is_open();

// Where the log could not be written, the next record is tried where the options say now.
void try_again();

// PyTorch was loaded: if the log is open already, what devtrace misses in it is told now.
void pytorch_loaded();

// Appends a record; `pid` is added. Failure is said on stderr once, and later records are not tried.
void write(report::Json record);

// Appends to the HTML report: its head first. `html`: what report::html_finding or html_record gave.
void write_html(const std::string& html);
bool has_html();

std::string path();         // of the log, decided on first use; empty when it could not be written
std::string wanted_path();  // the same, whether or not it could be
std::string html_path();    // of the HTML report; empty when it is off or could not be written

// `%p`, `%h`, `%q{VAR}`, `%%` in a pattern. Anything else after '%' stays as it is.
std::string expand(const std::string& pattern);

// In a fork's child the log is forgotten: it gets one of its own.
void before_fork();
void after_fork(bool child);

}  // namespace devtrace::log
