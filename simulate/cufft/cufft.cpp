// cuFFT: plans keep their stream; transforms are recorded, not computed.
#include <mutex>
#include <unordered_map>

#include "simulate/common/library.h"
#pragma GCC visibility push(default)
#include <cufftXt.h>
#pragma GCC visibility pop

namespace lib = devtrace::simulate::library;

namespace {

// Plans are numbers, not pointers.
struct Plans {
  std::mutex mutex;
  struct Plan {
    CUdevice device;  // that was current when it was made; -1: none
    cudaStream_t stream;
  };
  std::unordered_map<cufftHandle, Plan> all;
  cufftHandle next = 1;
};
Plans& plans() {
  static auto* p = new Plans;
  return *p;
}

CUdevice current_device() {
  CUdevice device = -1;
  return cuCtxGetDevice(&device) ? -1 : device;
}

cufftResult make(cufftHandle* plan) {
  if (!plan) return CUFFT_INVALID_VALUE;
  std::lock_guard lock(plans().mutex);
  *plan = plans().next++;
  plans().all[*plan] = {current_device(), nullptr};
  return CUFFT_SUCCESS;
}

bool alive(cufftHandle plan) {
  std::lock_guard lock(plans().mutex);
  return plans().all.count(plan) == 1;
}

// A plan that was created on another device is made on the current one.
void bind(cufftHandle plan) {
  std::lock_guard lock(plans().mutex);
  if (const auto it = plans().all.find(plan); it != plans().all.end()) it->second.device = current_device();
}

// The work area is the program's to allocate: some bytes, so that it does.
cufftResult sized(cufftHandle plan, size_t* size) {
  if (!alive(plan)) return CUFFT_INVALID_PLAN;
  if (size) *size = 1024;
  return CUFFT_SUCCESS;
}

cufftResult check(int rank, long long batch) {
  return rank >= 1 && rank <= 3 && batch >= 1 ? CUFFT_SUCCESS : CUFFT_INVALID_SIZE;
}

cufftResult execute(const char* name, cufftHandle plan, const void* from, const void* to) {
  cudaStream_t stream;
  {
    std::lock_guard lock(plans().mutex);
    auto it = plans().all.find(plan);
    if (it == plans().all.end()) return CUFFT_INVALID_PLAN;
    stream = it->second.stream;
    if (const CUdevice device = it->second.device; device >= 0 && device != current_device())
      return CUFFT_INVALID_DEVICE;
  }
  if (!from || !to) return CUFFT_INVALID_VALUE;
  CUcontext context = nullptr;
  if (cuCtxGetCurrent(&context) || !context) return CUFFT_EXEC_FAILED;
  const void* const memory[] = {from, to};
  return devtrace_sim_library_work(name, context, stream, memory, 2, 0, 1) ? CUFFT_EXEC_FAILED : CUFFT_SUCCESS;
}

}  // namespace

extern "C" {

cufftResult CUFFTAPI cufftCreate(cufftHandle* plan) {
  return make(plan);
}
cufftResult CUFFTAPI cufftDestroy(cufftHandle plan) {
  std::lock_guard lock(plans().mutex);
  return plans().all.erase(plan) ? CUFFT_SUCCESS : CUFFT_INVALID_PLAN;
}
cufftResult CUFFTAPI cufftPlan1d(cufftHandle* plan, int, cufftType, int batch) {
  return check(1, batch) ? CUFFT_INVALID_SIZE : make(plan);
}
cufftResult CUFFTAPI cufftPlan2d(cufftHandle* plan, int, int, cufftType) {
  return make(plan);
}
cufftResult CUFFTAPI cufftPlan3d(cufftHandle* plan, int, int, int, cufftType) {
  return make(plan);
}
cufftResult CUFFTAPI cufftPlanMany(cufftHandle* plan, int rank, int*, int*, int, int, int*, int, int, cufftType,
                                   int batch) {
  return check(rank, batch) ? CUFFT_INVALID_SIZE : make(plan);
}
cufftResult CUFFTAPI cufftMakePlan1d(cufftHandle plan, int, cufftType, int, size_t* size) {
  bind(plan);
  return sized(plan, size);
}
cufftResult CUFFTAPI cufftMakePlan2d(cufftHandle plan, int, int, cufftType, size_t* size) {
  bind(plan);
  return sized(plan, size);
}
cufftResult CUFFTAPI cufftMakePlan3d(cufftHandle plan, int, int, int, cufftType, size_t* size) {
  bind(plan);
  return sized(plan, size);
}
cufftResult CUFFTAPI cufftMakePlanMany(cufftHandle plan, int rank, int*, int*, int, int, int*, int, int, cufftType,
                                       int batch, size_t* size) {
  bind(plan);
  return check(rank, batch) ? CUFFT_INVALID_SIZE : sized(plan, size);
}
cufftResult CUFFTAPI cufftMakePlanMany64(cufftHandle plan, int rank, long long int*, long long int*, long long int,
                                         long long int, long long int*, long long int, long long int, cufftType,
                                         long long int batch, size_t* size) {
  bind(plan);
  return check(rank, batch) ? CUFFT_INVALID_SIZE : sized(plan, size);
}
cufftResult CUFFTAPI cufftXtMakePlanMany(cufftHandle plan, int rank, long long int*, long long int*, long long int,
                                         long long int, cudaDataType, long long int*, long long int, long long int,
                                         cudaDataType, long long int batch, size_t* size, cudaDataType) {
  bind(plan);
  return check(rank, batch) ? CUFFT_INVALID_SIZE : sized(plan, size);
}
cufftResult CUFFTAPI cufftGetSize(cufftHandle plan, size_t* size) {
  return sized(plan, size);
}
cufftResult CUFFTAPI cufftSetStream(cufftHandle plan, cudaStream_t stream) {
  std::lock_guard lock(plans().mutex);
  auto it = plans().all.find(plan);
  if (it == plans().all.end()) return CUFFT_INVALID_PLAN;
  it->second.stream = stream;
  return CUFFT_SUCCESS;
}
cufftResult CUFFTAPI cufftSetAutoAllocation(cufftHandle plan, int) {
  return alive(plan) ? CUFFT_SUCCESS : CUFFT_INVALID_PLAN;
}
cufftResult CUFFTAPI cufftSetWorkArea(cufftHandle plan, void*) {
  return alive(plan) ? CUFFT_SUCCESS : CUFFT_INVALID_PLAN;
}
cufftResult CUFFTAPI cufftXtExec(cufftHandle plan, void* from, void* to, int) {
  return execute("cufftXtExec", plan, from, to);
}
cufftResult CUFFTAPI cufftExecC2C(cufftHandle plan, cufftComplex* from, cufftComplex* to, int) {
  return execute("cufftExecC2C", plan, from, to);
}
cufftResult CUFFTAPI cufftExecR2C(cufftHandle plan, cufftReal* from, cufftComplex* to) {
  return execute("cufftExecR2C", plan, from, to);
}
cufftResult CUFFTAPI cufftExecC2R(cufftHandle plan, cufftComplex* from, cufftReal* to) {
  return execute("cufftExecC2R", plan, from, to);
}
cufftResult CUFFTAPI cufftExecZ2Z(cufftHandle plan, cufftDoubleComplex* from, cufftDoubleComplex* to, int) {
  return execute("cufftExecZ2Z", plan, from, to);
}
cufftResult CUFFTAPI cufftExecD2Z(cufftHandle plan, cufftDoubleReal* from, cufftDoubleComplex* to) {
  return execute("cufftExecD2Z", plan, from, to);
}
cufftResult CUFFTAPI cufftExecZ2D(cufftHandle plan, cufftDoubleComplex* from, cufftDoubleReal* to) {
  return execute("cufftExecZ2D", plan, from, to);
}
cufftResult CUFFTAPI cufftGetVersion(int* version) {
  if (!version) return CUFFT_INVALID_VALUE;
  *version = CUFFT_VERSION;
  return CUFFT_SUCCESS;
}
cufftResult CUFFTAPI cufftGetProperty(libraryPropertyType type, int* value) {
  if (!value) return CUFFT_INVALID_VALUE;
  *value = type == MAJOR_VERSION ? CUFFT_VER_MAJOR : type == MINOR_VERSION ? CUFFT_VER_MINOR : CUFFT_VER_PATCH;
  return CUFFT_SUCCESS;
}

}  // extern "C"
