#include "simulate/cufft/plan.h"

#include <mutex>
#include <unordered_map>

namespace devtrace::simulate::cufft {
namespace {

// Plans are numbers, not pointers.
struct Plans {
  std::mutex mutex;
  std::unordered_map<cufftHandle, Plan> all;
  cufftHandle next = 1;
};
Plans& plans() {
  static auto* p = new Plans;
  return *p;
}

}  // namespace

CUdevice current_device() {
  CUdevice device = -1;
  return cuCtxGetDevice(&device) ? -1 : device;
}

cufftHandle add_plan() {
  std::lock_guard lock(plans().mutex);
  const cufftHandle number = plans().next++;
  plans().all[number].device = current_device();
  return number;
}

bool remove_plan(cufftHandle number) {
  std::lock_guard lock(plans().mutex);
  return plans().all.erase(number) == 1;
}

bool find_plan(cufftHandle number, Plan* found) {
  std::lock_guard lock(plans().mutex);
  const auto at = plans().all.find(number);
  if (at == plans().all.end()) return false;
  *found = at->second;
  return true;
}

bool set_plan(cufftHandle number, const Plan& plan) {
  std::lock_guard lock(plans().mutex);
  const auto at = plans().all.find(number);
  if (at == plans().all.end()) return false;
  at->second = plan;
  return true;
}

}  // namespace devtrace::simulate::cufft
