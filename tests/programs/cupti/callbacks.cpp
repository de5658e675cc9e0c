// What a subscriber is told of a call: when, in which order, and every field. Each test is run in a process of its own
// (tests/e2e/rehearsal/test_stub_cupti.py).
#include <dlfcn.h>

#include <cstring>
#include <map>

#include "tests/programs/cupti/subscriber.h"
#include "tests/unit/simulate/kernels.h"

namespace {

void* runtime_kernel(const char* name) {
  cudaLibrary_t library;
  cudaKernel_t k = nullptr;
  EXPECT_EQ(cudaLibraryLoadData(&library, kKernels, nullptr, nullptr, 0, nullptr, nullptr, 0), cudaSuccess);
  EXPECT_EQ(cudaLibraryGetKernel(&k, library, name), cudaSuccess);
  return k;
}

void* memory(size_t size, int device = 0) {
  void* p = nullptr;
  EXPECT_EQ(cudaSetDevice(device), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&p, size), cudaSuccess);
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  return p;
}

}  // namespace

TEST(Callbacks, TheDriverIsToldOfInsideTheRuntime) {
  Subscriber s;
  s.domain(CUPTI_CB_DOMAIN_RUNTIME_API);
  s.domain(CUPTI_CB_DOMAIN_DRIVER_API);
  void* p = nullptr;
  ASSERT_EQ(cudaMalloc(&p, 100), cudaSuccess);
  EXPECT_EQ(text(s.events()),
            "+cudaMalloc +cuDevicePrimaryCtxRetain -cuDevicePrimaryCtxRetain +cuCtxSetCurrent -cuCtxSetCurrent "
            "+cuMemAlloc_v2 -cuMemAlloc_v2 -cudaMalloc");

  const struct {
    std::function<void()> call;
    std::string expected;
  } calls[] = {
      {[&] { cudaMemset(p, 0, 8); }, "+cudaMemset +cuMemsetD8_v2 -cuMemsetD8_v2 -cudaMemset"},
      {[&] { cudaMemcpy(p, "1234567", 8, cudaMemcpyHostToDevice); },
       "+cudaMemcpy +cuMemcpyHtoD_v2 -cuMemcpyHtoD_v2 -cudaMemcpy"},
      {[&] { cudaMemcpyAsync(p, "1234567", 8, cudaMemcpyDefault, nullptr); },
       "+cudaMemcpyAsync +cuMemcpyAsync -cuMemcpyAsync -cudaMemcpyAsync"},
      {[&] { cudaMemcpyPeer(p, 0, p, 0, 8); }, "+cudaMemcpyPeer +cuMemcpyPeer -cuMemcpyPeer -cudaMemcpyPeer"},
      {[&] { cudaStreamSynchronize(nullptr); },
       "+cudaStreamSynchronize +cuStreamSynchronize -cuStreamSynchronize -cudaStreamSynchronize"},
      {[&] { cudaFree(p); }, "+cudaFree +cuMemFree_v2 -cuMemFree_v2 -cudaFree"},
      {[&] { cudaGetLastError(); }, "+cudaGetLastError -cudaGetLastError"},
      {[&] { cuMemFree(0); }, "+cuMemFree_v2 -cuMemFree_v2"},
  };
  for (const auto& c : calls) {
    s.forget();
    c.call();
    EXPECT_EQ(text(s.events()), c.expected);
  }
}

TEST(Callbacks, EveryFieldOfALaunch) {
  void* stub = runtime_kernel("store");
  int launches = 0;
  void* arguments[3];
  cudaStream_t stream;
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  Subscriber s([&](const Event& e, const void* given) {
    if (e.domain == CUPTI_CB_DOMAIN_RUNTIME_API) {
      const auto& p = *static_cast<const cudaLaunchKernel_v7000_params*>(given);
      EXPECT_EQ(p.func, stub);
      EXPECT_EQ(p.gridDim.x, 1u);
      EXPECT_EQ(p.gridDim.y, 2u);
      EXPECT_EQ(p.gridDim.z, 3u);
      EXPECT_EQ(p.blockDim.x, 4u);
      EXPECT_EQ(p.blockDim.y, 5u);
      EXPECT_EQ(p.blockDim.z, 6u);
      EXPECT_EQ(p.args, arguments);
      EXPECT_EQ(p.sharedMem, 32u);
      EXPECT_EQ(p.stream, stream);
    } else {
      const auto& p = *static_cast<const cuLaunchKernel_params*>(given);
      EXPECT_EQ(static_cast<void*>(p.f), stub);
      EXPECT_EQ(p.gridDimX, 1u);
      EXPECT_EQ(p.gridDimZ, 3u);
      EXPECT_EQ(p.blockDimY, 5u);
      EXPECT_EQ(p.sharedMemBytes, 32u);
      EXPECT_EQ(p.hStream, stream);
      EXPECT_EQ(p.kernelParams, arguments);
      EXPECT_EQ(p.extra, nullptr);
    }
    EXPECT_EQ(e.symbol, "store");
    ++launches;
  });
  s.runtime(RUNTIME(cudaLaunchKernel_v7000));
  s.driver(DRIVER(cuLaunchKernel));
  void* pointer = memory(64);
  unsigned number = 3;
  size_t third = 4;
  arguments[0] = &pointer;
  arguments[1] = &number;
  arguments[2] = &third;
  ASSERT_EQ(cudaLaunchKernel(stub, dim3(1, 2, 3), dim3(4, 5, 6), arguments, 32, stream), cudaSuccess);
  EXPECT_EQ(text(s.events()), "+cudaLaunchKernel +cuLaunchKernel -cuLaunchKernel -cudaLaunchKernel");
  EXPECT_EQ(launches, 4);
}

TEST(Callbacks, TheDriversFunctionOfEachLaunch) {
  void* stub = runtime_kernel("nothing");
  Subscriber s;
  s.domain(CUPTI_CB_DOMAIN_RUNTIME_API);
  s.domain(CUPTI_CB_DOMAIN_DRIVER_API);
  cudaLaunchConfig_t config = {};
  config.gridDim = config.blockDim = dim3(1);
  ASSERT_EQ(cudaLaunchKernelExC(&config, stub, nullptr), cudaSuccess);
  EXPECT_EQ(text(s.events()), "+cudaLaunchKernelExC +cuLaunchKernelEx -cuLaunchKernelEx -cudaLaunchKernelExC");
  for (const Event& e : s.events()) EXPECT_EQ(e.symbol, "nothing") << e.name;
  s.forget();
  ASSERT_EQ(cudaLaunchCooperativeKernel(stub, dim3(1), dim3(1), nullptr, 0, nullptr), cudaSuccess);
  EXPECT_EQ(text(s.events()),
            "+cudaLaunchCooperativeKernel +cuLaunchCooperativeKernel -cuLaunchCooperativeKernel "
            "-cudaLaunchCooperativeKernel");
}

#if CUDART_VERSION >= 13000
extern "C" cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void**, size_t, cudaStream_t);
extern "C" cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t, dim3, dim3, void**, size_t, cudaStream_t);

// What compiled code calls; CUPTI's headers have its id and no structure: the arguments one behind the other.
TEST(Callbacks, ALaunchOfCompiledCode) {
  auto k = static_cast<cudaKernel_t>(runtime_kernel("nothing"));
  Subscriber s([&](const Event& e, const void* given) {
    struct {
      cudaKernel_t kernel;
      dim3 grid, block;
      void** arguments;
      size_t shared;
      cudaStream_t stream;
    } p;
    if (e.domain == CUPTI_CB_DOMAIN_RUNTIME_API) {
      std::memcpy(&p, given, sizeof p);
      EXPECT_EQ(p.kernel, k);
      EXPECT_EQ(p.grid.x, 7u);
      EXPECT_EQ(p.block.z, 2u);
      EXPECT_EQ(p.shared, 16u);
      EXPECT_EQ(p.stream, nullptr);
    } else {
      EXPECT_EQ(static_cast<const cuLaunchKernel_params*>(given)->gridDimX, 7u);
    }
    EXPECT_EQ(e.symbol, "nothing");
  });
  s.runtime(RUNTIME(__cudaLaunchKernel_v13000));
  s.runtime(RUNTIME(__cudaLaunchKernel_ptsz_v13000));
  s.driver(DRIVER(cuLaunchKernel));
  ASSERT_EQ(__cudaLaunchKernel(k, dim3(7), dim3(1, 1, 2), nullptr, 16, nullptr), cudaSuccess);
  EXPECT_EQ(text(s.events()), "+__cudaLaunchKernel +cuLaunchKernel -cuLaunchKernel -__cudaLaunchKernel");
  s.forget();
  ASSERT_EQ(__cudaLaunchKernel_ptsz(k, dim3(7), dim3(1, 1, 2), nullptr, 16, nullptr), cudaSuccess);
  EXPECT_EQ(text(s.events()), "+__cudaLaunchKernel_ptsz +cuLaunchKernel -cuLaunchKernel -__cudaLaunchKernel_ptsz");
}
#endif

TEST(Callbacks, ParametersOfManyFunctions) {
  char host[64] = {};
  char* a = static_cast<char*>(memory(4096, 0));
  char* b = static_cast<char*>(memory(4096, 1));
  cudaStream_t stream;
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  CUcontext context;
  ASSERT_EQ(cuCtxGetCurrent(&context), CUDA_SUCCESS);
  CUdeviceptr address = 0;
  void* made = nullptr;
  int device = -1;
  CUlaunchConfig config = {};
  config.gridDimX = config.gridDimY = config.gridDimZ = config.blockDimX = config.blockDimY = config.blockDimZ = 1;
  CUfunction f = loaded_kernel("nothing");

  std::map<CUpti_CallbackId, std::function<void(const void*)>> runtime, driver;
#define SEEN(which, cbid, structure, ...)                  \
  which[cbid] = [&](const void* given) {                   \
    const auto& p = *static_cast<const structure*>(given); \
    __VA_ARGS__                                            \
  }
  SEEN(runtime, RUNTIME(cudaMalloc_v3020), cudaMalloc_v3020_params, EXPECT_EQ(p.devPtr, &made);
       EXPECT_EQ(p.size, 300u););
  SEEN(runtime, RUNTIME(cudaMemcpyAsync_v3020), cudaMemcpyAsync_v3020_params, EXPECT_EQ(p.dst, a);
       EXPECT_EQ(p.src, host); EXPECT_EQ(p.count, 8u); EXPECT_EQ(p.kind, cudaMemcpyHostToDevice);
       EXPECT_EQ(p.stream, stream););
  SEEN(runtime, RUNTIME(cudaMemcpyAsync_ptsz_v7000), cudaMemcpyAsync_ptsz_v7000_params, EXPECT_EQ(p.dst, host);
       EXPECT_EQ(p.kind, cudaMemcpyDeviceToHost); EXPECT_EQ(p.stream, nullptr););
  SEEN(runtime, RUNTIME(cudaMemcpyPeerAsync_v4000), cudaMemcpyPeerAsync_v4000_params, EXPECT_EQ(p.dst, b);
       EXPECT_EQ(p.dstDevice, 1); EXPECT_EQ(p.src, a); EXPECT_EQ(p.srcDevice, 0); EXPECT_EQ(p.count, 16u);
       EXPECT_EQ(p.stream, nullptr););
  SEEN(runtime, RUNTIME(cudaMemcpy2D_v3020), cudaMemcpy2D_v3020_params, EXPECT_EQ(p.dst, a); EXPECT_EQ(p.dpitch, 32u);
       EXPECT_EQ(p.src, host); EXPECT_EQ(p.spitch, 16u); EXPECT_EQ(p.width, 8u); EXPECT_EQ(p.height, 2u);
       EXPECT_EQ(p.kind, cudaMemcpyHostToDevice););
  SEEN(runtime, RUNTIME(cudaSetDevice_v3020), cudaSetDevice_v3020_params, EXPECT_EQ(p.device, 1););
  SEEN(runtime, RUNTIME(cudaGetDevice_v3020), cudaGetDevice_v3020_params, EXPECT_EQ(p.device, &device););
  SEEN(runtime, RUNTIME(cudaMemsetAsync_v3020), cudaMemsetAsync_v3020_params, EXPECT_EQ(p.devPtr, a);
       EXPECT_EQ(p.value, 7); EXPECT_EQ(p.count, 5u); EXPECT_EQ(p.stream, stream););
  SEEN(runtime, RUNTIME(cudaDeviceEnablePeerAccess_v4000), cudaDeviceEnablePeerAccess_v4000_params,
       EXPECT_EQ(p.peerDevice, 1);
       EXPECT_EQ(p.flags, 0u););
  SEEN(driver, DRIVER(cuMemAlloc_v2), cuMemAlloc_v2_params,
       EXPECT_TRUE(p.dptr == &address || static_cast<void*>(p.dptr) == static_cast<void*>(&made));
       EXPECT_TRUE(p.bytesize == 200u || p.bytesize == 300u););
  SEEN(driver, DRIVER(cuMemcpyDtoH_v2), cuMemcpyDtoH_v2_params, EXPECT_EQ(p.dstHost, host);
       EXPECT_EQ(p.srcDevice, reinterpret_cast<CUdeviceptr>(a)); EXPECT_EQ(p.ByteCount, 9u););
  SEEN(driver, DRIVER(cuMemcpyPeerAsync), cuMemcpyPeerAsync_params,
       EXPECT_EQ(p.dstDevice, reinterpret_cast<CUdeviceptr>(b));
       EXPECT_NE(p.dstContext, context); EXPECT_EQ(p.srcContext, context); EXPECT_EQ(p.ByteCount, 16u););
  SEEN(driver, DRIVER(cuLaunchKernelEx), cuLaunchKernelEx_params, EXPECT_EQ(p.config, &config); EXPECT_EQ(p.f, f););
  SEEN(driver, DRIVER(cuLaunchKernelEx_ptsz), cuLaunchKernelEx_ptsz_params, EXPECT_EQ(p.config, &config););
  SEEN(driver, DRIVER(cuCtxSetCurrent), cuCtxSetCurrent_params, EXPECT_NE(p.ctx, nullptr););
  // Two symbols of one behaviour, two ids.
  SEEN(driver, DRIVER(cuCtxDestroy), cuCtxDestroy_params, EXPECT_EQ(p.ctx, nullptr););
  SEEN(driver, DRIVER(cuCtxDestroy_v2), cuCtxDestroy_v2_params, EXPECT_EQ(p.ctx, nullptr););
#undef SEEN

  std::map<std::pair<int, CUpti_CallbackId>, int> seen;
  {
    Subscriber s([&](const Event& e, const void* given) {
      const auto& checks = e.domain == CUPTI_CB_DOMAIN_RUNTIME_API ? runtime : driver;
      ASSERT_TRUE(checks.count(e.id)) << e.name;
      checks.at(e.id)(given);
      ++seen[{e.domain, e.id}];
    });
    for (auto& [id, check] : runtime) s.runtime(id);
    for (auto& [id, check] : driver) s.driver(id);

    auto call = [](const char* symbol, auto... arguments) {
      auto* f = reinterpret_cast<int (*)(decltype(arguments)...)>(dlsym(RTLD_DEFAULT, symbol));
      ASSERT_NE(f, nullptr) << symbol;
      f(arguments...);
    };
    cudaMalloc(&made, 300);
    cudaMemcpyAsync(a, host, 8, cudaMemcpyHostToDevice, stream);
    call("cudaMemcpyAsync_ptsz", static_cast<void*>(host), static_cast<const void*>(a), size_t{8},
         cudaMemcpyDeviceToHost, cudaStream_t{});
    cudaMemcpyPeerAsync(b, 1, a, 0, 16, nullptr);
    cudaMemcpy2D(a, 32, host, 16, 8, 2, cudaMemcpyHostToDevice);
    cudaGetDevice(&device);
    cudaMemsetAsync(a, 7, 5, stream);
    cudaDeviceEnablePeerAccess(1, 0);
    cuMemAlloc(&address, 200);
    cuMemcpyDtoH(host, reinterpret_cast<CUdeviceptr>(a), 9);
    cuLaunchKernelEx(&config, f, nullptr, nullptr);
    call("cuLaunchKernelEx_ptsz", static_cast<const CUlaunchConfig*>(&config), f, static_cast<void**>(nullptr),
         static_cast<void**>(nullptr));
    call("cuCtxDestroy", CUcontext{});
    call("cuCtxDestroy_v2", CUcontext{});
    cudaSetDevice(1);
  }
  for (auto& [id, check] : runtime) {
    const int expected = 2;
    EXPECT_EQ((seen[{CUPTI_CB_DOMAIN_RUNTIME_API, id}]), expected) << id;
  }
  for (auto& [id, check] : driver)
    EXPECT_EQ((seen[{CUPTI_CB_DOMAIN_DRIVER_API, id}]), id == DRIVER(cuMemAlloc_v2) ? 4 : 2) << id;
}

TEST(Callbacks, ResultsOfCallsThatFail) {
  Subscriber s;
  s.domain(CUPTI_CB_DOMAIN_RUNTIME_API);
  s.domain(CUPTI_CB_DOMAIN_DRIVER_API);
  ASSERT_EQ(cudaSetDevice(7), cudaErrorInvalidDevice);
  EXPECT_EQ(s.events().back().name, "cudaSetDevice");
  EXPECT_EQ(s.events().back().result, cudaErrorInvalidDevice);
  ASSERT_EQ(cuMemFree(1), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(s.events().back().result, CUDA_ERROR_INVALID_CONTEXT);
  void* p = nullptr;
  ASSERT_EQ(cudaMalloc(&p, size_t{1} << 50), cudaErrorMemoryAllocation);
  EXPECT_EQ(s.events().back().result, cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(s.events().back().result, 0);
  EXPECT_FALSE(s.events().back().has_parameters);
}

TEST(Callbacks, TheContextIsTheThreadsOwnThen) {
  Subscriber s;
  s.runtime(RUNTIME(cudaMalloc_v3020));
  s.runtime(RUNTIME(cudaSetDevice_v3020));
  void* p = nullptr;
  ASSERT_EQ(cudaMalloc(&p, 1), cudaSuccess);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  const std::vector<Event> e = s.events();
  ASSERT_EQ(e.size(), 4u);
  CUcontext zero, one;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&zero, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxGetCurrent(&one), CUDA_SUCCESS);
  EXPECT_EQ(e[0].context, nullptr);
  EXPECT_EQ(e[0].context_number, 0u);
  EXPECT_EQ(e[1].context, zero);
  EXPECT_EQ(e[2].context, zero);
  EXPECT_EQ(e[3].context, one);
  EXPECT_EQ(e[2].context_number, e[1].context_number);
  EXPECT_NE(e[3].context_number, e[1].context_number);
  uint32_t number = 0, device = 9;
  EXPECT_EQ(cuptiGetContextId(one, &number), CUPTI_SUCCESS);
  EXPECT_EQ(number, e[3].context_number);
  EXPECT_EQ(cuptiGetDeviceId(one, &device), CUPTI_SUCCESS);
  EXPECT_EQ(device, 1u);
  EXPECT_EQ(cuptiGetDeviceId(zero, &device), CUPTI_SUCCESS);
  EXPECT_EQ(device, 0u);
}

TEST(Callbacks, ResourcesAndSynchronisation) {
  Subscriber s;
  s.domain(CUPTI_CB_DOMAIN_RESOURCE);
  s.domain(CUPTI_CB_DOMAIN_SYNCHRONIZE);
  CUcontext zero, own;
  CUstream stream;
  ASSERT_EQ(cudaFree(nullptr), cudaSuccess);
  ASSERT_EQ(cuCtxGetCurrent(&zero), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamCreate(&stream, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&own, 0), CUDA_SUCCESS);  // is there already
  ASSERT_EQ(cudaDeviceReset(), cudaSuccess);
  constexpr auto kResource = CUPTI_CB_DOMAIN_RESOURCE, kSynchronize = CUPTI_CB_DOMAIN_SYNCHRONIZE;
  const struct {
    CUpti_CallbackDomain domain;
    CUpti_CallbackId id;
    CUcontext context;
    CUstream stream;
  } expected[] = {
      {kResource, CUPTI_CBID_RESOURCE_CU_INIT_FINISHED, nullptr, nullptr},
      {kResource, CUPTI_CBID_RESOURCE_CONTEXT_CREATED, zero, nullptr},
      {kResource, CUPTI_CBID_RESOURCE_STREAM_CREATED, zero, stream},
      {kSynchronize, CUPTI_CBID_SYNCHRONIZE_STREAM_SYNCHRONIZED, zero, stream},
      {kSynchronize, CUPTI_CBID_SYNCHRONIZE_CONTEXT_SYNCHRONIZED, zero, nullptr},
      {kResource, CUPTI_CBID_RESOURCE_STREAM_DESTROY_STARTING, zero, stream},
      {kResource, CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING, zero, nullptr},
  };
  const std::vector<Event> e = s.events();
  ASSERT_EQ(e.size(), std::size(expected));
  for (size_t i = 0; i < e.size(); ++i) {
    EXPECT_EQ(e[i].domain, expected[i].domain) << i;
    EXPECT_EQ(e[i].id, expected[i].id) << i;
    EXPECT_EQ(e[i].context, expected[i].context) << i;
    EXPECT_EQ(e[i].stream, expected[i].stream) << i;
  }
}

TEST(Callbacks, BeginningAndEndOfACallShareTheirData) {
  uint64_t next = 100;
  Subscriber s([&](const Event& e, const void*) {
    if (e.site == CUPTI_API_ENTER) *e.data = ++next;
  });
  s.domain(CUPTI_CB_DOMAIN_RUNTIME_API);
  s.domain(CUPTI_CB_DOMAIN_DRIVER_API);
  void* p = memory(64);
  cudaMemset(p, 0, 8);
  cudaFree(p);
  std::vector<Event> open;
  uint64_t expected = 100;
  std::map<uint64_t, uint64_t> written;
  uint32_t last = 0;
  for (const Event& e : s.events()) {
    if (e.site == CUPTI_API_ENTER) {
      EXPECT_EQ(e.kept, 0u) << e.name;
      if (open.empty()) {
        EXPECT_GT(e.correlation, last) << e.name;  // a number for each call …
        last = e.correlation;
      } else {
        EXPECT_EQ(e.correlation, last) << e.name;  // … that the driver's calls inside share
        EXPECT_EQ(e.domain, CUPTI_CB_DOMAIN_DRIVER_API);
      }
      open.push_back(e);
      written[open.size()] = ++expected;
    } else {
      ASSERT_FALSE(open.empty());
      EXPECT_EQ(open.back().name, e.name);
      EXPECT_EQ(open.back().id, e.id);
      EXPECT_EQ(open.back().data, e.data);
      EXPECT_EQ(open.back().correlation, e.correlation);
      EXPECT_EQ(e.kept, written[open.size()]) << e.name;
      open.pop_back();
    }
  }
  EXPECT_TRUE(open.empty());
  EXPECT_GT(expected, 106u);
}

TEST(Enabling, OneFunctionAtATime) {
  Subscriber s;
  void* p = memory(64);
  EXPECT_EQ(text(s.events()), "");
  s.driver(DRIVER(cuMemsetD8_v2));
  cudaMemset(p, 0, 1);
  cuMemsetD16(reinterpret_cast<CUdeviceptr>(p), 0, 1);
  EXPECT_EQ(text(s.events()), "+cuMemsetD8_v2 -cuMemsetD8_v2");
  uint32_t on = 9;
  EXPECT_EQ(cuptiGetCallbackState(&on, s.handle, CUPTI_CB_DOMAIN_DRIVER_API, DRIVER(cuMemsetD8_v2)), CUPTI_SUCCESS);
  EXPECT_NE(on, 0u);
  EXPECT_EQ(cuptiGetCallbackState(&on, s.handle, CUPTI_CB_DOMAIN_RUNTIME_API, RUNTIME(cudaMemset_v3020)),
            CUPTI_SUCCESS);
  EXPECT_EQ(on, 0u);
  s.driver(DRIVER(cuMemsetD8_v2), false);
  s.forget();
  cudaMemset(p, 0, 1);
  EXPECT_EQ(text(s.events()), "");
  EXPECT_EQ(cuptiEnableAllDomains(1, s.handle), CUPTI_SUCCESS);
  cudaMemset(p, 0, 1);
  EXPECT_EQ(text(s.events()), "+cudaMemset +cuMemsetD8_v2 -cuMemsetD8_v2 -cudaMemset");
  s.domain(CUPTI_CB_DOMAIN_RUNTIME_API, false);
  s.forget();
  cudaMemset(p, 0, 1);
  EXPECT_EQ(text(s.events()), "+cuMemsetD8_v2 -cuMemsetD8_v2");
}

TEST(Enabling, GraphLaunchesOnlyByTheirOwnIds) {
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  char* p = static_cast<char*>(memory(64));
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
  ASSERT_EQ(cudaMemsetAsync(p, 0, 8, stream), cudaSuccess);
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  Subscriber s([&](const Event& e, const void* given) {
    if (e.domain == CUPTI_CB_DOMAIN_RUNTIME_API)
      EXPECT_EQ(static_cast<const cudaGraphLaunch_v10000_params*>(given)->graphExec, exec);
    else
      EXPECT_EQ(static_cast<const cuGraphLaunch_params*>(given)->hGraph, exec);
  });
  EXPECT_EQ(cuptiEnableAllDomains(1, s.handle), CUPTI_SUCCESS);
  ASSERT_EQ(cudaGraphLaunch(exec, stream), cudaSuccess);
  EXPECT_EQ(text(s.events()), "");
  s.driver(DRIVER(cuGraphLaunch));
  ASSERT_EQ(cudaGraphLaunch(exec, stream), cudaSuccess);
  EXPECT_EQ(text(s.events()), "+cuGraphLaunch -cuGraphLaunch");
  s.runtime(RUNTIME(cudaGraphLaunch_v10000));
  s.forget();
  ASSERT_EQ(cudaGraphLaunch(exec, stream), cudaSuccess);
  EXPECT_EQ(text(s.events()), "+cudaGraphLaunch +cuGraphLaunch -cuGraphLaunch -cudaGraphLaunch");
}

TEST(Enabling, WhatIsWrongIsRefused) {
  const char* name = nullptr;
  uint32_t on;
  size_t count;
  CUpti_DomainTable domains;
  EXPECT_EQ(cuptiEnableCallback(1, nullptr, CUPTI_CB_DOMAIN_DRIVER_API, 1), CUPTI_ERROR_INVALID_PARAMETER);
  Subscriber s;
  EXPECT_EQ(cuptiEnableCallback(1, s.handle, CUPTI_CB_DOMAIN_INVALID, 1), CUPTI_ERROR_INVALID_PARAMETER);
  EXPECT_EQ(cuptiEnableCallback(1, s.handle, CUPTI_CB_DOMAIN_SIZE, 1), CUPTI_ERROR_INVALID_PARAMETER);
  EXPECT_EQ(cuptiEnableCallback(1, s.handle, CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_SIZE),
            CUPTI_ERROR_INVALID_PARAMETER);
  EXPECT_EQ(cuptiEnableDomain(1, s.handle, CUPTI_CB_DOMAIN_SIZE), CUPTI_ERROR_INVALID_PARAMETER);
  EXPECT_EQ(cuptiGetCallbackState(nullptr, s.handle, CUPTI_CB_DOMAIN_DRIVER_API, 1), CUPTI_ERROR_INVALID_PARAMETER);
  EXPECT_EQ(cuptiGetCallbackState(&on, s.handle, CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_SIZE),
            CUPTI_ERROR_INVALID_PARAMETER);
  EXPECT_EQ(cuptiGetCallbackName(CUPTI_CB_DOMAIN_DRIVER_API, DRIVER(cuMemAlloc_v2), nullptr),
            CUPTI_ERROR_INVALID_PARAMETER);
  EXPECT_EQ(cuptiGetCallbackName(CUPTI_CB_DOMAIN_RESOURCE, 1, &name), CUPTI_ERROR_INVALID_PARAMETER);
  EXPECT_EQ(cuptiSupportedDomains(&count, &domains), CUPTI_SUCCESS);
  EXPECT_GE(count, 2u);
  CUpti_SubscriberHandle gone = s.handle;
  s.leave();
  EXPECT_EQ(cuptiUnsubscribe(gone), CUPTI_ERROR_INVALID_PARAMETER);
  EXPECT_EQ(cuptiEnableCallback(1, gone, CUPTI_CB_DOMAIN_DRIVER_API, 1), CUPTI_ERROR_INVALID_PARAMETER);
}
