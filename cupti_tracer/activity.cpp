#include "cupti_tracer/activity.h"

#include <cstdlib>

#include "tracker/events.h"

namespace devtrace::cupti_tracer {
namespace {

constexpr size_t kBufferBytes = 1 << 16;
constexpr size_t kAlignment = 8;          // ACTIVITY_RECORD_ALIGNMENT
constexpr uint32_t kFlushEvery = 1000;    // milliseconds
const Library* library_in_use = nullptr;  // buffers come back on CUPTI's own threads

// Called by CUPTI, once for some five hundred copies. Without a buffer it drops records.
void CUPTIAPI give_buffer(uint8_t** buffer, size_t* size, size_t* most_records) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(kAlignment, kBufferBytes));
  *size = *buffer ? kBufferBytes : 0;
  *most_records = 0;  // as many as fit
}

template <class Record>
void emit(const CUpti_Activity* activity) {
  const auto& copy = *reinterpret_cast<const Record*>(activity);
  // Both are 0 where the device could not say.
  if (copy.end > copy.start) events::copy_took(copy.correlationId, copy.bytes, copy.end - copy.start);
}

void CUPTIAPI take_buffer(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  CUpti_Activity* record = nullptr;
  while (valid > 0 && library_in_use->cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
    // A later CUPTI's structures begin like these.
    if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) emit<CUpti_ActivityMemcpy6>(record);
    if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY2) emit<CUpti_ActivityMemcpyPtoP4>(record);
  }
  std::free(buffer);
}

}  // namespace

bool record_copies(const Library& cupti) {
  if (!cupti.cuptiActivityRegisterCallbacks || !cupti.cuptiActivityEnable || !cupti.cuptiActivityFlushAll ||
      !cupti.cuptiActivityGetNextRecord)
    return false;
  library_in_use = &cupti;
  if (cupti.cuptiActivityRegisterCallbacks(give_buffer, take_buffer) != CUPTI_SUCCESS) return false;
  if (cupti.cuptiActivityFlushPeriod) cupti.cuptiActivityFlushPeriod(kFlushEvery);
  bool recorded = true;
  for (const CUpti_ActivityKind kind : {CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMCPY2})
    recorded &= cupti.cuptiActivityEnable(kind) == CUPTI_SUCCESS;
  return recorded;
}

void flush_copies(const Library& cupti) {
  if (library_in_use) cupti.cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
}

}  // namespace devtrace::cupti_tracer
