// CUPTI's small questions.
#include "simulate/common/callbacks.h"
#include "simulate/cupti/activity.h"
#include "simulate/cupti/cupti_headers.h"

namespace simulate = devtrace::simulate;

namespace {

// Out of the header (module.mk): "RESULT(name)" a line.
#define RESULT(name) \
  case name:         \
    return #name;
const char* text_of(CUptiResult result) {
  switch (result) {
#include "cupti_results.inc"
    default:
      return nullptr;
  }
}
#undef RESULT

}  // namespace

extern "C" {

CUptiResult CUPTIAPI cuptiGetVersion(uint32_t* version) {
  if (!version) return CUPTI_ERROR_INVALID_PARAMETER;
  *version = CUPTI_API_VERSION;
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiGetResultString(CUptiResult result, const char** text) {
  if (!text) return CUPTI_ERROR_INVALID_PARAMETER;
  const char* known = text_of(result);
  *text = known ? known : "<unknown>";
  return known ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER;
}
CUptiResult CUPTIAPI cuptiGetErrorMessage(CUptiResult result, const char** text) {
  return cuptiGetResultString(result, text);
}
CUptiResult CUPTIAPI cuptiGetTimestamp(uint64_t* timestamp) {
  if (!timestamp) return CUPTI_ERROR_INVALID_PARAMETER;
  *timestamp = simulate::cupti::now();
  return CUPTI_SUCCESS;
}

// By its header these may be asked inside callbacks: no callback comes of them.
CUptiResult CUPTIAPI cuptiGetDeviceId(CUcontext context, uint32_t* device) {
  if (!device) return CUPTI_ERROR_INVALID_PARAMETER;
  uint32_t number;
  if (!context) context = devtrace_sim_context(nullptr);
  return devtrace_sim_context_facts(context, &number, device) ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_DEVICE;
}
CUptiResult CUPTIAPI cuptiGetContextId(CUcontext context, uint32_t* number) {
  if (!number) return CUPTI_ERROR_INVALID_PARAMETER;
  uint32_t device;
  return devtrace_sim_context_facts(context, number, &device) ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_CONTEXT;
}
CUptiResult CUPTIAPI cuptiGetStreamIdEx(CUcontext, CUstream stream, uint8_t per_thread, uint32_t* number) {
  if (!number) return CUPTI_ERROR_INVALID_PARAMETER;
  *number = devtrace_sim_stream_number(stream || !per_thread ? stream : CU_STREAM_PER_THREAD);
  return *number ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_STREAM;
}
CUptiResult CUPTIAPI cuptiGetStreamId(CUcontext context, CUstream stream, uint32_t* number) {
  return cuptiGetStreamIdEx(context, stream, 0, number);
}

}  // extern "C"
