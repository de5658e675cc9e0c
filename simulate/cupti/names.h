// The ids that callbacks go by.
#pragma once

#include <cstdint>

#include "simulate/cupti/cupti_headers.h"

namespace devtrace::simulate::cupti {

// One more than a domain's last id; 0 for what is no domain.
uint32_t callback_count(CUpti_CallbackDomain domain);
// "cuMemAlloc_v2", "cudaMalloc_v3020"; null where the domain has no names or no such id.
const char* callback_name(CUpti_CallbackDomain domain, uint32_t callback);

}  // namespace devtrace::simulate::cupti
