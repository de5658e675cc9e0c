// Activity records: what calls took, and what devices did.
#pragma once

#include <cstdint>

#include "simulate/common/callbacks.h"

namespace devtrace::simulate::cupti {

// The clock of every record: the profiler's own (cuptiActivityRegisterTimestampCallback), or ns since 1970.
uint64_t now();

// Whether any kind of record is enabled.
bool records_wanted();

void record_call(const Call& call, uint64_t end);
void record_work(const Work& work);

// Hands full buffers to the profiler. Called where the thread holds nothing of the driver's, as the profiler's
// functions may call it.
void deliver_full();

// No kind is enabled any more, and what was recorded is dropped.
void end_activity();

}  // namespace devtrace::simulate::cupti
