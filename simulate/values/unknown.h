// --values small: what is not computed because it is large, or depends on what is. Unlike other memory that nobody
// computed, it is made zero, and whole numbers that depend on it are computed or chosen.
#pragma once

#include "simulate/values/uncomputed.h"

namespace devtrace::simulate::values {

// Who should have written it.
Source unknown_source();

// An operator was left.
void unknown_is_left();
// How many were. For who lists what was not computed.
unsigned long left_as_unknown();

// The host reads something that depends on it. One line, the first time.
// A program that waits in a loop for another value would not end: after so many reads at one line it is ended.
constexpr unsigned kMostUnknownReads = 10'000;
void unknown_is_read(bool may_take_gil);

}  // namespace devtrace::simulate::values
