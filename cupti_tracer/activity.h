// How long copies between devices took: CUPTI's activity records.
#pragma once

#include "cupti_tracer/library.h"

namespace devtrace::cupti_tracer {

// Has CUPTI record every copy from now on. False where it will not: copies are then counted without their times.
bool record_copies(const Library& cupti);

// Hands over what has been recorded so far, also of copies that are not complete.
void flush_copies(const Library& cupti);

}  // namespace devtrace::cupti_tracer
