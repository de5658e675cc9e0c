// A profiler as CUDA_INJECTION64_PATH names one: says on stderr that it was initialised, and each runtime call's
// beginning.
#include <cuda.h>
#include <cupti.h>
#include <unistd.h>

#include <cstdio>

namespace {

void on_callback(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void* given) {
  const auto& data = *static_cast<const CUpti_CallbackData*>(given);
  if (data.callbackSite == CUPTI_API_ENTER) std::fprintf(stderr, "call %s\n", data.functionName);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjection(void) {
  int devices = -1;
  cuDeviceGetCount(&devices);
  std::fprintf(stderr, "initialized with %d devices\n", devices);
  CUpti_SubscriberHandle handle;
  if (cuptiSubscribe(&handle, on_callback, nullptr)) return 0;
  return cuptiEnableDomain(1, handle, CUPTI_CB_DOMAIN_RUNTIME_API) == CUPTI_SUCCESS;
}
