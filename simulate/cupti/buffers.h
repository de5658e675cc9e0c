// Records on their way to the profiler: kept here until they are put into buffers that it supplies.
#pragma once

#include <cstddef>
#include <cstdint>

#include "simulate/cupti/cupti_headers.h"

namespace devtrace::simulate::cupti {

// Keeps a copy of a record. Any thread, at any time.
void keep(const void* record, size_t size);
constexpr size_t kLargestRecord = 256;
template <typename T>
void keep(const T& record) {
  static_assert(sizeof record <= kLargestRecord);
  keep(&record, sizeof record);
}

// Where buffers come from and go to; false while nobody said.
bool buffers_registered();
void register_buffers(CUpti_BuffersCallbackRequestFunc request, CUpti_BuffersCallbackCompleteFunc complete);

// Fills buffers with what is kept, and completes those that are full; with `all`, the last one as well. One thread at a
// time: without `all`, whoever comes second leaves it to the first.
void fill_buffers(bool all);

// Since the last question.
size_t dropped_records();
void forget_records();

}  // namespace devtrace::simulate::cupti
