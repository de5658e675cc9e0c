// cuFFT: plans, and their transforms in the order of their streams.
#include <algorithm>
#include <memory>

#include "simulate/cufft/plan.h"

namespace {

namespace lib = devtrace::simulate::library;
using namespace devtrace::simulate::cufft;

struct Types {
  cudaDataType input, output;
};

bool types_of(cufftType type, Types* found) {
  switch (type) {
    case CUFFT_R2C:
      return *found = {CUDA_R_32F, CUDA_C_32F}, true;
    case CUFFT_C2R:
      return *found = {CUDA_C_32F, CUDA_R_32F}, true;
    case CUFFT_C2C:
      return *found = {CUDA_C_32F, CUDA_C_32F}, true;
    case CUFFT_D2Z:
      return *found = {CUDA_R_64F, CUDA_C_64F}, true;
    case CUFFT_Z2D:
      return *found = {CUDA_C_64F, CUDA_R_64F}, true;
    case CUFFT_Z2Z:
      return *found = {CUDA_C_64F, CUDA_C_64F}, true;
    default:
      return false;
  }
}

// What a program says of a plan, in the integers that it uses.
template <class Integer>
struct PlanShape {
  int rank;
  const Integer* sizes;
  const Integer *input_embed = nullptr, *output_embed = nullptr;
  int64_t input_stride = 1, input_distance = 0, output_stride = 1, output_distance = 0;
  int64_t batch = 1;
};

template <class Integer>
Layout layout(cudaDataType type, const PlanShape<Integer>& w, const Integer* embed, int64_t stride, int64_t distance) {
  Layout made;
  made.type = type;
  made.given = w.input_embed && w.output_embed;
  if (!made.given) return made;
  for (int i = 0; i < w.rank; ++i) made.embed[static_cast<size_t>(i)] = embed[i];
  made.stride = stride;
  made.distance = distance;
  return made;
}

cufftResult size_of(const Plan& plan, size_t* size) {
  for (size_t i = 0; size && i < std::max<size_t>(1, plan.devices.size()); ++i) size[i] = kWorkArea;
  return CUFFT_SUCCESS;
}

// A plan that was created on another device is made on the current one.
template <class Integer>
cufftResult make(cufftHandle number, const PlanShape<Integer>& w, Types types, size_t* size) {
  Plan plan;
  if (!find_plan(number, &plan)) return CUFFT_INVALID_PLAN;
  if (w.rank < 1 || w.rank > kMostDimensions || w.batch < 1 || !w.sizes) return CUFFT_INVALID_SIZE;
  for (int i = 0; i < w.rank; ++i) {
    if (w.sizes[i] < 1) return CUFFT_INVALID_SIZE;
    plan.sizes[static_cast<size_t>(i)] = w.sizes[i];
  }
  plan.rank = w.rank;
  plan.batch = w.batch;
  plan.device = current_device();
  plan.input = layout(types.input, w, w.input_embed, w.input_stride, w.input_distance);
  plan.output = layout(types.output, w, w.output_embed, w.output_stride, w.output_distance);
  set_plan(number, plan);
  return size_of(plan, size);
}

template <class Integer>
cufftResult make(cufftHandle number, const PlanShape<Integer>& w, cufftType type, size_t* size) {
  Types types;
  return types_of(type, &types) ? make(number, w, types, size) : CUFFT_INVALID_TYPE;
}

template <class Integer>
cufftResult create(cufftHandle* number, const PlanShape<Integer>& w, cufftType type) {
  if (!number) return CUFFT_INVALID_VALUE;
  *number = add_plan();
  const cufftResult result = make(*number, w, type, nullptr);
  if (result) remove_plan(*number);
  return result;
}

cufftResult execute(const char* name, cufftHandle number, const void* from, void* to, int direction) {
  Plan plan;
  if (!find_plan(number, &plan)) return CUFFT_INVALID_PLAN;
  if (plan.device >= 0 && plan.device != current_device()) return CUFFT_INVALID_DEVICE;
  if (!from || !to) return CUFFT_INVALID_VALUE;
  CUcontext context = nullptr;
  if (cuCtxGetCurrent(&context) || !context) return CUFFT_EXEC_FAILED;
  lib::Memory memory{{from}, {}, {to}};
  if (!is_computed(plan)) {
    const void* const both[] = {from, to};
    return devtrace_sim_library_work(name, context, plan.stream, both, 2, 0, 1) ? CUFFT_EXEC_FAILED : CUFFT_SUCCESS;
  }
  const auto kept = std::make_shared<const Plan>(plan);
  return lib::calculate(name, context, plan.stream, memory,
                        [=] { transform(*kept, from, to, direction == CUFFT_INVERSE); })
             ? CUFFT_EXEC_FAILED
             : CUFFT_SUCCESS;
}

// Changes a plan that there is.
template <class Change>
cufftResult change(cufftHandle number, const Change& to) {
  Plan plan;
  if (!find_plan(number, &plan)) return CUFFT_INVALID_PLAN;
  to(plan);
  return set_plan(number, plan) ? CUFFT_SUCCESS : CUFFT_INVALID_PLAN;
}

cufftResult estimate(size_t* size) {
  if (!size) return CUFFT_INVALID_VALUE;
  *size = kWorkArea;
  return CUFFT_SUCCESS;
}

}  // namespace

extern "C" {

cufftResult CUFFTAPI cufftCreate(cufftHandle* plan) {
  if (!plan) return CUFFT_INVALID_VALUE;
  *plan = add_plan();
  return CUFFT_SUCCESS;
}
cufftResult CUFFTAPI cufftDestroy(cufftHandle plan) {
  return remove_plan(plan) ? CUFFT_SUCCESS : CUFFT_INVALID_PLAN;
}
cufftResult CUFFTAPI cufftPlan1d(cufftHandle* plan, int x, cufftType type, int batch) {
  return create(plan, PlanShape<int>{.rank = 1, .sizes = &x, .batch = batch}, type);
}
cufftResult CUFFTAPI cufftPlan2d(cufftHandle* plan, int x, int y, cufftType type) {
  const int sizes[] = {x, y};
  return create(plan, PlanShape<int>{.rank = 2, .sizes = sizes}, type);
}
cufftResult CUFFTAPI cufftPlan3d(cufftHandle* plan, int x, int y, int z, cufftType type) {
  const int sizes[] = {x, y, z};
  return create(plan, PlanShape<int>{.rank = 3, .sizes = sizes}, type);
}
cufftResult CUFFTAPI cufftPlanMany(cufftHandle* plan, int rank, int* n, int* inembed, int istride, int idist,
                                   int* onembed, int ostride, int odist, cufftType type, int batch) {
  return create(plan, PlanShape<int>{rank, n, inembed, onembed, istride, idist, ostride, odist, batch}, type);
}
cufftResult CUFFTAPI cufftMakePlan1d(cufftHandle plan, int x, cufftType type, int batch, size_t* size) {
  return make(plan, PlanShape<int>{.rank = 1, .sizes = &x, .batch = batch}, type, size);
}
cufftResult CUFFTAPI cufftMakePlan2d(cufftHandle plan, int x, int y, cufftType type, size_t* size) {
  const int sizes[] = {x, y};
  return make(plan, PlanShape<int>{.rank = 2, .sizes = sizes}, type, size);
}
cufftResult CUFFTAPI cufftMakePlan3d(cufftHandle plan, int x, int y, int z, cufftType type, size_t* size) {
  const int sizes[] = {x, y, z};
  return make(plan, PlanShape<int>{.rank = 3, .sizes = sizes}, type, size);
}
cufftResult CUFFTAPI cufftMakePlanMany(cufftHandle plan, int rank, int* n, int* inembed, int istride, int idist,
                                       int* onembed, int ostride, int odist, cufftType type, int batch, size_t* size) {
  return make(plan, PlanShape<int>{rank, n, inembed, onembed, istride, idist, ostride, odist, batch}, type, size);
}
cufftResult CUFFTAPI cufftMakePlanMany64(cufftHandle plan, int rank, long long int* n, long long int* inembed,
                                         long long int istride, long long int idist, long long int* onembed,
                                         long long int ostride, long long int odist, cufftType type,
                                         long long int batch, size_t* size) {
  return make(plan, PlanShape<long long>{rank, n, inembed, onembed, istride, idist, ostride, odist, batch}, type, size);
}
cufftResult CUFFTAPI cufftXtMakePlanMany(cufftHandle plan, int rank, long long int* n, long long int* inembed,
                                         long long int istride, long long int idist, cudaDataType input,
                                         long long int* onembed, long long int ostride, long long int odist,
                                         cudaDataType output, long long int batch, size_t* size, cudaDataType) {
  return make(plan, PlanShape<long long>{rank, n, inembed, onembed, istride, idist, ostride, odist, batch},
              Types{input, output}, size);
}
cufftResult CUFFTAPI cufftGetSize(cufftHandle number, size_t* size) {
  Plan plan;
  return find_plan(number, &plan) ? size_of(plan, size) : CUFFT_INVALID_PLAN;
}
cufftResult CUFFTAPI cufftGetSize1d(cufftHandle plan, int, cufftType, int, size_t* size) {
  return cufftGetSize(plan, size);
}
cufftResult CUFFTAPI cufftGetSize2d(cufftHandle plan, int, int, cufftType, size_t* size) {
  return cufftGetSize(plan, size);
}
cufftResult CUFFTAPI cufftGetSize3d(cufftHandle plan, int, int, int, cufftType, size_t* size) {
  return cufftGetSize(plan, size);
}
cufftResult CUFFTAPI cufftGetSizeMany(cufftHandle plan, int, int*, int*, int, int, int*, int, int, cufftType, int,
                                      size_t* size) {
  return cufftGetSize(plan, size);
}
cufftResult CUFFTAPI cufftEstimate1d(int, cufftType, int, size_t* size) {
  return estimate(size);
}
cufftResult CUFFTAPI cufftEstimate2d(int, int, cufftType, size_t* size) {
  return estimate(size);
}
cufftResult CUFFTAPI cufftEstimate3d(int, int, int, cufftType, size_t* size) {
  return estimate(size);
}
cufftResult CUFFTAPI cufftEstimateMany(int, int*, int*, int, int, int*, int, int, cufftType, int, size_t* size) {
  return estimate(size);
}
cufftResult CUFFTAPI cufftSetStream(cufftHandle number, cudaStream_t stream) {
  return change(number, [&](Plan& plan) { plan.stream = stream; });
}
cufftResult CUFFTAPI cufftSetAutoAllocation(cufftHandle number, int) {
  return change(number, [](Plan&) {});
}
cufftResult CUFFTAPI cufftSetWorkArea(cufftHandle number, void*) {
  return change(number, [](Plan&) {});
}
cufftResult CUFFTAPI cufftXtSetWorkAreaPolicy(cufftHandle number, cufftXtWorkAreaPolicy, size_t*) {
  return change(number, [](Plan&) {});
}
// A plan with a callback, which is code for a device, is not computed.
cufftResult CUFFTAPI cufftXtSetCallback(cufftHandle number, void**, cufftXtCallbackType, void**) {
  return change(number, [](Plan& plan) { plan.has_callback = true; });
}
cufftResult CUFFTAPI cufftXtClearCallback(cufftHandle number, cufftXtCallbackType) {
  return change(number, [](Plan& plan) { plan.has_callback = false; });
}
cufftResult CUFFTAPI cufftXtSetCallbackSharedSize(cufftHandle number, cufftXtCallbackType, size_t) {
  return change(number, [](Plan&) {});
}
cufftResult CUFFTAPI cufftXtExec(cufftHandle plan, void* from, void* to, int direction) {
  return execute("cufftXtExec", plan, from, to, direction);
}
cufftResult CUFFTAPI cufftExecC2C(cufftHandle plan, cufftComplex* from, cufftComplex* to, int direction) {
  return execute("cufftExecC2C", plan, from, to, direction);
}
cufftResult CUFFTAPI cufftExecR2C(cufftHandle plan, cufftReal* from, cufftComplex* to) {
  return execute("cufftExecR2C", plan, from, to, CUFFT_FORWARD);
}
cufftResult CUFFTAPI cufftExecC2R(cufftHandle plan, cufftComplex* from, cufftReal* to) {
  return execute("cufftExecC2R", plan, from, to, CUFFT_INVERSE);
}
cufftResult CUFFTAPI cufftExecZ2Z(cufftHandle plan, cufftDoubleComplex* from, cufftDoubleComplex* to, int direction) {
  return execute("cufftExecZ2Z", plan, from, to, direction);
}
cufftResult CUFFTAPI cufftExecD2Z(cufftHandle plan, cufftDoubleReal* from, cufftDoubleComplex* to) {
  return execute("cufftExecD2Z", plan, from, to, CUFFT_FORWARD);
}
cufftResult CUFFTAPI cufftExecZ2D(cufftHandle plan, cufftDoubleComplex* from, cufftDoubleReal* to) {
  return execute("cufftExecZ2D", plan, from, to, CUFFT_INVERSE);
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
