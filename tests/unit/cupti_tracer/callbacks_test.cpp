// What the callbacks tell: CUPTI's part is played here, with its headers' own structures.
#include "cupti_tracer/callbacks.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <cupti.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "cupti_tracer/parameters.h"
#include "tests/unit/interpose/recorder.h"

namespace tracer = devtrace::cupti_tracer;

namespace {

// The wheels' own libcupti, which needs no driver to say how it names its callbacks.
namespace real_cupti {

std::string path() {
  return DEVTRACE_REAL_CUPTI;
}

decltype(&cuptiGetCallbackName) callback_name() {
  static void* const library = ::dlopen(path().c_str(), RTLD_LAZY | RTLD_LOCAL);
  return library ? reinterpret_cast<decltype(&cuptiGetCallbackName)>(::dlsym(library, "cuptiGetCallbackName"))
                 : nullptr;
}

std::string name(CUpti_CallbackDomain domain, uint32_t id) {
  const char* text = nullptr;
  return callback_name()(domain, id, &text) == CUPTI_SUCCESS && text ? text : "";
}

}  // namespace real_cupti

using Id = std::pair<CUpti_CallbackDomain, uint32_t>;
std::set<Id> enabled;

CUptiResult CUPTIAPI note_enabled(uint32_t, CUpti_SubscriberHandle, CUpti_CallbackDomain domain, CUpti_CallbackId id) {
  enabled.insert({domain, id});
  return CUPTI_SUCCESS;
}

// The names are the real library's; there is no driver for the rest of it.
tracer::Library library_of_names() {
  tracer::Library cupti;
  cupti.cuptiGetCallbackName = real_cupti::callback_name();
  cupti.cuptiEnableCallback = note_enabled;
  return cupti;
}

// A call of the program's.
template <class Parameters>
struct Call {
  CUpti_CallbackDomain domain;
  uint32_t id;
  Parameters parameters;
  int result = 0;
  uint64_t kept = 0;
  uint32_t number = 41;

  void at(CUpti_ApiCallbackSite site) {
    CUpti_CallbackData data{};
    data.callbackSite = site;
    data.functionParams = &parameters;
    data.functionReturnValue = site == CUPTI_API_EXIT ? &result : nullptr;
    data.correlationData = &kept;
    data.correlationId = number;
    tracer::callback(nullptr, domain, id, &data);
  }
  void enter() { at(CUPTI_API_ENTER); }
  void exit() { at(CUPTI_API_EXIT); }
};
template <class Parameters>
Call<Parameters> runtime(CUpti_runtime_api_trace_cbid id, Parameters parameters) {
  return {CUPTI_CB_DOMAIN_RUNTIME_API, id, parameters};
}
template <class Parameters>
Call<Parameters> driver(CUpti_driver_api_trace_cbid id, Parameters parameters) {
  return {CUPTI_CB_DOMAIN_DRIVER_API, id, parameters};
}

class Callbacks : public testing::Test {
 protected:
  void SetUp() override {
    if (!real_cupti::callback_name()) GTEST_SKIP() << "no libcupti in the wheels: " << real_cupti::path();
    std::string why;
    count = tracer::enable_callbacks(library_of_names(), nullptr, why);
    EXPECT_EQ(why, "");
    tracer::enable_events(true);
    recorder::clear();
  }
  void TearDown() override { tracer::enable_events(false); }
  int count = 0;
};

}  // namespace

TEST_F(Callbacks, EveryHookOfCudaHasOne) {
  // A table: statements for each of the hooks would take the compiler minutes.
  static constexpr std::pair<std::string_view, const char*> kHooks[] = {
#define HOOK(library, symbol) {library, #symbol},
#include "interpose/linking/hooks.inc"
#undef HOOK
  };
  std::map<std::string, bool> hooks;
  for (const auto& [library, symbol] : kHooks)
    if (library.starts_with("libcuda")) hooks[symbol] = false;
  for (const auto& [domain, id] : enabled) {
    std::string name = real_cupti::name(domain, id);
    if (domain == CUPTI_CB_DOMAIN_RUNTIME_API) name.resize(name.rfind("_v"));
    ASSERT_TRUE(hooks.contains(name)) << name;
    hooks[name] = true;
  }
  std::set<std::string> without;
  for (const auto& [name, found] : hooks)
    if (!found) without.insert(name);
  EXPECT_EQ(without,
            (std::set<std::string>{
                "cudaGraphAddNode_v2",  // in CUDA 12's own numbering; CUPTI has it as cudaGraphAddNode_v12030
                // Look-ups: what they hand out calls CUPTI as well.
                "cuGetProcAddress", "cuGetProcAddress_v2", "cudaGetDriverEntryPoint", "cudaGetDriverEntryPoint_ptsz",
                "cudaGetDriverEntryPointByVersion", "cudaGetDriverEntryPointByVersion_ptsz",
                // Registration: no results that say whether it succeeded.
                "__cudaRegisterFatBinary", "__cudaRegisterFunction", "__cudaUnregisterFatBinary"}));
  EXPECT_GT(count, 200);
}

TEST_F(Callbacks, WhatCuptiRefusesIsNamed) {
  static std::set<std::string> refused;
  tracer::Library cupti = library_of_names();
  cupti.cuptiEnableCallback = [](uint32_t, CUpti_SubscriberHandle, CUpti_CallbackDomain domain, CUpti_CallbackId id) {
    const std::string name = real_cupti::name(domain, id);
    for (const std::string& start : refused)
      if (name.starts_with(start)) return CUPTI_ERROR_NOT_COMPATIBLE;
    return CUPTI_SUCCESS;
  };
  std::string said;
  refused = {"cudaMalloc_v", "cuMemAllocManaged"};
  EXPECT_EQ(tracer::enable_callbacks(cupti, nullptr, said), count - 2);
  EXPECT_EQ(said, "cuMemAllocManaged, cudaMalloc (error 14)");
  refused = {"cudaMemcpy"};
  const int rest = tracer::enable_callbacks(cupti, nullptr, said);
  EXPECT_TRUE(said.ends_with(" and " + std::to_string(count - rest - 6) + " more (error 14)")) << said;
  EXPECT_LT(said.size(), 250u);
}

TEST_F(Callbacks, ACopyIsToldOnceAndBeforeItIsMade) {
  int to = 0, from = 0;
  auto copy = runtime(CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020,
                      cudaMemcpyAsync_v3020_params{&to, &from, 4, cudaMemcpyDeviceToHost, cudaStreamPerThread});
  copy.enter();
  ASSERT_EQ(recorder::copies.size(), 1u);
  EXPECT_EQ(recorder::copies[0].to, &to);
  EXPECT_EQ(recorder::copies[0].from, &from);
  EXPECT_EQ(recorder::copies[0].bytes, 4u);
  EXPECT_EQ(recorder::copies[0].direction, devtrace::events::Direction::device_to_host);
  EXPECT_EQ(recorder::copies[0].stream, cudaStreamPerThread);
  EXPECT_STREQ(recorder::copies[0].function, "cudaMemcpyAsync");
  EXPECT_EQ(recorder::copies[0].correlation_id, 41u);
  auto inner = driver(CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoHAsync_v2,
                      cuMemcpyDtoHAsync_v2_params{&to, CUdeviceptr(&from), 4, nullptr});
  inner.enter();
  inner.exit();
  copy.exit();
  EXPECT_EQ(recorder::copies.size(), 1u);
  inner.enter();  // called by the program itself
  inner.exit();
  EXPECT_EQ(recorder::copies.size(), 2u);
}

TEST_F(Callbacks, WhatDependsOnTheResultIsToldOfASuccessOnly) {
  auto set = runtime(CUPTI_RUNTIME_TRACE_CBID_cudaSetDevice_v3020, cudaSetDevice_v3020_params{1});
  set.enter();
  EXPECT_TRUE(recorder::devices.empty());
  set.exit();
  EXPECT_EQ(recorder::devices, std::vector{1});
  set.result = cudaErrorInvalidDevice;
  set.enter();
  set.exit();
  EXPECT_EQ(recorder::devices, std::vector{1});
}

TEST_F(Callbacks, AContextsDeviceIsAskedForBeforeItEnds) {
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  CUcontext context;
  ASSERT_EQ(cuCtxCreate(&context, nullptr, 0, 1), CUDA_SUCCESS);
  auto destroy = driver(CUPTI_DRIVER_TRACE_CBID_cuCtxDestroy_v2, cuCtxDestroy_v2_params{context});
  destroy.enter();
  EXPECT_TRUE(recorder::resets.empty());
  ASSERT_EQ(cuCtxDestroy(context), CUDA_SUCCESS);
  destroy.exit();
  EXPECT_EQ(recorder::resets, std::vector{1});
}

TEST_F(Callbacks, ParametersAreThoseOfTheVersionThatCuptiNames) {
  int to[2], from[2];
  void* tos[] = {&to[0], &to[1]};
  const void* froms[] = {&from[0], &from[1]};
  size_t bytes[] = {4, 4}, failed = 0;
  auto* const stream = reinterpret_cast<cudaStream_t>(0x77);
  struct {
    void** to;
    const void** from;
    size_t* bytes;
    size_t count;
    void* attributes;
    size_t* indices;
    size_t attribute_count;
    size_t* failed;
    cudaStream_t stream;
  } of_12{tos, froms, bytes, 2, nullptr, nullptr, 0, &failed, stream};
  auto old = runtime(CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyBatchAsync_v12080, of_12);
  old.enter();
  old.exit();
  auto now = runtime(CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyBatchAsync_v13000,
                     cudaMemcpyBatchAsync_v13000_params{tos, froms, bytes, 2, nullptr, nullptr, 0, stream});
  now.enter();
  now.exit();
  ASSERT_EQ(recorder::copies.size(), 4u);
  for (const auto& copy : recorder::copies) EXPECT_EQ(copy.stream, stream);
  for (const auto& copy : recorder::copies) {
    EXPECT_EQ(copy.correlation_id, 41u);
    EXPECT_TRUE(copy.several) << "its time is the whole batch's";
  }
}

TEST_F(Callbacks, OfACallThatWasUnderWayOnlyTheExitIsTold) {
  auto set = runtime(CUPTI_RUNTIME_TRACE_CBID_cudaSetDevice_v3020, cudaSetDevice_v3020_params{1});
  auto current = driver(CUPTI_DRIVER_TRACE_CBID_cuCtxSetCurrent, cuCtxSetCurrent_params{nullptr});
  tracer::inside_call(false);
  current.enter();
  current.exit();
  set.exit();
  EXPECT_EQ(recorder::devices, std::vector{1});
  tracer::inside_call(true);  // a hook tells of it
  current.enter();
  current.exit();
  set.exit();
  EXPECT_EQ(recorder::devices, std::vector{1});
  tracer::inside_call(false);  // of a function without a hook: no exit comes
  set.enter();
  set.exit();
  EXPECT_EQ(recorder::devices, (std::vector{1, 1}));
  current.enter();
  current.exit();
  EXPECT_EQ(recorder::devices, (std::vector{1, 1, -1}));
}

TEST_F(Callbacks, ErrnoStaysAsItWas) {
  auto set = runtime(CUPTI_RUNTIME_TRACE_CBID_cudaSetDevice_v3020, cudaSetDevice_v3020_params{0});
  errno = 77;
  set.enter();
  set.exit();
  EXPECT_EQ(errno, 77);
}

TEST_F(Callbacks, AfterTheEndNothingIsTold) {
  auto set = runtime(CUPTI_RUNTIME_TRACE_CBID_cudaSetDevice_v3020, cudaSetDevice_v3020_params{1});
  set.enter();
  tracer::enable_events(false);
  set.exit();
  set.enter();
  set.exit();
  tracer::enable_events(true);
  EXPECT_TRUE(recorder::devices.empty());
  set.enter();  // the depth is right again
  set.exit();
  EXPECT_EQ(recorder::devices, std::vector{1});
}

// ---- the layout that follows from a function's type is that of CUPTI's own headers

using devtrace::cupti_tracer::call_with;
using devtrace::cupti_tracer::offsets;

namespace {

template <class... Members>
std::vector<size_t> computed() {
  const auto array = offsets<Members...>();
  return {array.begin(), array.end()};
}

}  // namespace

TEST(Parameters, LieWhereCuptiPutsThem) {
  EXPECT_EQ((computed<void*, const void*, size_t, cudaMemcpyKind, cudaStream_t>()),
            (std::vector{offsetof(cudaMemcpyAsync_v3020_params, dst), offsetof(cudaMemcpyAsync_v3020_params, src),
                         offsetof(cudaMemcpyAsync_v3020_params, count), offsetof(cudaMemcpyAsync_v3020_params, kind),
                         offsetof(cudaMemcpyAsync_v3020_params, stream)}));
  EXPECT_EQ((computed<const void*, dim3, dim3, void**, size_t, cudaStream_t>()),
            (std::vector{
                offsetof(cudaLaunchKernel_v7000_params, func), offsetof(cudaLaunchKernel_v7000_params, gridDim),
                offsetof(cudaLaunchKernel_v7000_params, blockDim), offsetof(cudaLaunchKernel_v7000_params, args),
                offsetof(cudaLaunchKernel_v7000_params, sharedMem), offsetof(cudaLaunchKernel_v7000_params, stream)}));
  EXPECT_EQ((computed<void**, cudaIpcMemHandle_t, unsigned>()),
            (std::vector{offsetof(cudaIpcOpenMemHandle_v4010_params, devPtr),
                         offsetof(cudaIpcOpenMemHandle_v4010_params, handle),
                         offsetof(cudaIpcOpenMemHandle_v4010_params, flags)}));
  EXPECT_EQ(
      (computed<void*, int, const void*, int, size_t, cudaStream_t>()),
      (std::vector{
          offsetof(cudaMemcpyPeerAsync_v4000_params, dst), offsetof(cudaMemcpyPeerAsync_v4000_params, dstDevice),
          offsetof(cudaMemcpyPeerAsync_v4000_params, src), offsetof(cudaMemcpyPeerAsync_v4000_params, srcDevice),
          offsetof(cudaMemcpyPeerAsync_v4000_params, count), offsetof(cudaMemcpyPeerAsync_v4000_params, stream)}));
}

TEST(Parameters, AreHandedOverAsTheyAre) {
  static std::tuple<void*, int, const void*, int, size_t, cudaStream_t> got;
  cudaMemcpyPeerAsync_v4000_params packed{&packed, 3, &got, 5, 7, cudaStreamPerThread};
  call_with(
      +[](void* to, int to_device, const void* from, int from_device, size_t bytes, cudaStream_t stream) {
        got = {to, to_device, from, from_device, bytes, stream};
        return cudaSuccess;
      },
      &packed);
  EXPECT_EQ(got, (std::tuple<void*, int, const void*, int, size_t, cudaStream_t>(&packed, 3, &got, 5, 7,
                                                                                 cudaStreamPerThread)));
}
