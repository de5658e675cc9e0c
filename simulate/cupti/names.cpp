#include "simulate/cupti/names.h"

#include <iterator>

namespace devtrace::simulate::cupti {
namespace {

// Out of the headers of this CUPTI (module.mk): "NAME(id, name)" a line, by id without a gap.
#define NAME(id, name) name,
constexpr const char* kDriver[] = {
#include "cupti_driver_names.inc"
};
constexpr const char* kRuntime[] = {
#include "cupti_runtime_names.inc"
};
#undef NAME
static_assert(std::size(kDriver) == CUPTI_DRIVER_TRACE_CBID_SIZE);
static_assert(std::size(kRuntime) == CUPTI_RUNTIME_TRACE_CBID_SIZE);

}  // namespace

uint32_t callback_count(CUpti_CallbackDomain domain) {
  switch (domain) {
    case CUPTI_CB_DOMAIN_DRIVER_API:
      return CUPTI_DRIVER_TRACE_CBID_SIZE;
    case CUPTI_CB_DOMAIN_RUNTIME_API:
      return CUPTI_RUNTIME_TRACE_CBID_SIZE;
    case CUPTI_CB_DOMAIN_RESOURCE:
      return CUPTI_CBID_RESOURCE_SIZE;
    case CUPTI_CB_DOMAIN_SYNCHRONIZE:
      return CUPTI_CBID_SYNCHRONIZE_SIZE;
    case CUPTI_CB_DOMAIN_NVTX:
      return CUPTI_CBID_NVTX_SIZE;
    case CUPTI_CB_DOMAIN_STATE:
      return CUPTI_CBID_STATE_SIZE;
    default:
      return 0;
  }
}

const char* callback_name(CUpti_CallbackDomain domain, uint32_t callback) {
  if (callback >= callback_count(domain)) return nullptr;
  if (domain == CUPTI_CB_DOMAIN_DRIVER_API) return kDriver[callback];
  if (domain == CUPTI_CB_DOMAIN_RUNTIME_API) return kRuntime[callback];
  return nullptr;
}

}  // namespace devtrace::simulate::cupti
