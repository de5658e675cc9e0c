// Devices, contexts, memory and faults of the simulated driver and runtime.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "simulate/model/memory/host_memory.h"
#include "tests/unit/simulate/kernels.h"

extern "C" {
void** __cudaRegisterFatBinary(void*);
void __cudaUnregisterFatBinary(void**);
void __cudaRegisterFunction(void**, const char*, char*, const char*, int, void*, void*, void*, void*, int*);
}

namespace {

class Device : public testing::Test {
 protected:
  void SetUp() override {
    for (int d = 0; d < 2; ++d) {
      ASSERT_EQ(cudaSetDevice(d), cudaSuccess);
      ASSERT_EQ(cudaDeviceReset(), cudaSuccess);  // an earlier test may have left a sticky error or peer access
    }
    ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
    cudaGetLastError();
  }
  void* on(int device, size_t bytes) {
    void* p = nullptr;
    EXPECT_EQ(cudaSetDevice(device), cudaSuccess);
    EXPECT_EQ(cudaMalloc(&p, bytes), cudaSuccess);
    EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
    return p;
  }
};

TEST_F(Device, SaysThatItIsSimulated) {
  int count = 0;
  ASSERT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  EXPECT_EQ(count, 4);
  cudaDeviceProp p, q;
  ASSERT_EQ(cudaGetDeviceProperties(&p, 0), cudaSuccess);
  ASSERT_EQ(cudaGetDeviceProperties(&q, 1), cudaSuccess);
  EXPECT_NE(std::strstr(p.name, "(simulated)"), nullptr);
  EXPECT_NE(std::memcmp(&p.uuid, &q.uuid, sizeof p.uuid), 0);
  EXPECT_EQ(p.totalGlobalMem, size_t{64} << 20);
  EXPECT_EQ(cudaGetDeviceProperties(&p, 4), cudaErrorInvalidDevice);
}

TEST_F(Device, CopiesBytesBetweenHostAndDevices) {
  std::vector<int> in(1000), out(1000, -1);
  for (int i = 0; i < 1000; ++i) in[static_cast<size_t>(i)] = i * i;
  void *a = on(0, 4000), *b = on(1, 4000);
  ASSERT_EQ(cudaMemcpy(a, in.data(), 4000, cudaMemcpyHostToDevice), cudaSuccess);
  ASSERT_EQ(cudaMemcpyPeer(b, 1, a, 0, 4000), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(out.data(), b, 4000, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(in, out);
  ASSERT_EQ(cudaMemset(b, 0, 8), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(out.data(), b, 12, cudaMemcpyDefault), cudaSuccess);
  EXPECT_EQ(out[0], 0);
  EXPECT_EQ(out[2], in[2]);
  EXPECT_EQ(cudaMemcpy(a, in.data(), 4004, cudaMemcpyHostToDevice), cudaErrorInvalidValue) << "past the end";
  EXPECT_EQ(cudaMemcpy(out.data(), in.data(), 4, cudaMemcpyHostToDevice), cudaErrorInvalidValue) << "no device memory";
}

TEST_F(Device, TellsTheOwnerOfAnAddress) {
  char pageable;
  void *b = on(1, 100), *pinned, *managed;
  ASSERT_EQ(cudaMallocHost(&pinned, 100), cudaSuccess);
  ASSERT_EQ(cudaMallocManaged(&managed, 100, cudaMemAttachGlobal), cudaSuccess);
  cudaPointerAttributes a;
  ASSERT_EQ(cudaPointerGetAttributes(&a, static_cast<char*>(b) + 99), cudaSuccess);
  EXPECT_EQ(a.type, cudaMemoryTypeDevice);
  EXPECT_EQ(a.device, 1);
  ASSERT_EQ(cudaPointerGetAttributes(&a, pinned), cudaSuccess);
  EXPECT_EQ(a.type, cudaMemoryTypeHost);
  ASSERT_EQ(cudaPointerGetAttributes(&a, managed), cudaSuccess);
  EXPECT_EQ(a.type, cudaMemoryTypeManaged);
  ASSERT_EQ(cudaPointerGetAttributes(&a, &pageable), cudaSuccess);
  EXPECT_EQ(a.type, cudaMemoryTypeUnregistered);
  ASSERT_EQ(cudaHostRegister(&pageable, 1, 0), cudaSuccess);
  ASSERT_EQ(cudaPointerGetAttributes(&a, &pageable), cudaSuccess);
  EXPECT_EQ(a.type, cudaMemoryTypeHost);
  EXPECT_EQ(cudaHostRegister(&pageable, 1, 0), cudaErrorHostMemoryAlreadyRegistered);
  EXPECT_EQ(cudaHostUnregister(&pageable), cudaSuccess);
  EXPECT_EQ(cudaHostUnregister(&pageable), cudaErrorHostMemoryNotRegistered);
}

TEST_F(Device, RunsOutOfMemoryAndGetsItBack) {
  size_t free_before, free_after, total;
  ASSERT_EQ(cudaMemGetInfo(&free_before, &total), cudaSuccess);
  EXPECT_EQ(total, size_t{64} << 20);
  std::vector<void*> blocks;
  void* p;
  cudaError_t e;
  while ((e = cudaMalloc(&p, 4 << 20)) == cudaSuccess) blocks.push_back(p);
  EXPECT_EQ(e, cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(blocks.size(), free_before / (4 << 20));
  for (void* block : blocks) EXPECT_EQ(cudaFree(block), cudaSuccess);
  ASSERT_EQ(cudaMemGetInfo(&free_after, &total), cudaSuccess);
  EXPECT_EQ(free_after, free_before);
  EXPECT_EQ(cudaFree(blocks[0]), cudaErrorInvalidValue) << "freed twice";
}

TEST_F(Device, SmallAllocationsShareChunksAndReturnThem) {
  size_t before, during, after, total;
  cudaMemGetInfo(&before, &total);
  std::vector<char*> blocks;
  for (int i = 0; i < 3000; ++i) {
    blocks.push_back(static_cast<char*>(on(0, 1000)));
    ASSERT_EQ(reinterpret_cast<uintptr_t>(blocks.back()) % 256, 0u);
    std::memset(blocks.back(), i, 1000);
  }
  cudaMemGetInfo(&during, &total);
  EXPECT_LE(before - during, size_t{4} << 20) << "3000 of 1 KiB fit two chunks";
  EXPECT_GE(before - during, size_t{2} << 20);
  for (int i = 0; i < 3000; ++i) ASSERT_EQ(blocks[static_cast<size_t>(i)][999], static_cast<char>(i)) << i;
  for (char* block : blocks) ASSERT_EQ(cudaFree(block), cudaSuccess);
  cudaMemGetInfo(&after, &total);
  EXPECT_EQ(after, before);
}

TEST_F(Device, CurrentDeviceIsTheThreadsOwn) {
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  int other = -1, mine = -1;
  std::thread([&] { cudaGetDevice(&other); }).join();
  cudaGetDevice(&mine);
  EXPECT_EQ(other, 0);
  EXPECT_EQ(mine, 1);
  EXPECT_EQ(cudaSetDevice(17), cudaErrorInvalidDevice);
}

TEST_F(Device, VirtualMemoryIsOwnedByTheDeviceBehindIt) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 1};
  size_t size = 4 << 20;
  CUdeviceptr base;
  CUmemGenericAllocationHandle handle;
  ASSERT_EQ(cudaFree(nullptr), cudaSuccess);
  ASSERT_EQ(cuMemAddressReserve(&base, 2 * size, 0, 0, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemCreate(&handle, size, &properties, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemMap(base + size, size, 0, handle, 0), CUDA_SUCCESS);
  CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 1}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  ASSERT_EQ(cuMemSetAccess(base + size, size, &access, 1), CUDA_SUCCESS);
  int owner = -1;
  EXPECT_EQ(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, base + size + 5), CUDA_SUCCESS);
  EXPECT_EQ(owner, 1);
  EXPECT_EQ(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, base), CUDA_ERROR_INVALID_VALUE)
      << "not mapped";
  int value = 42, back = 0;
  EXPECT_EQ(cuMemcpyHtoD(base + size, &value, 4), CUDA_SUCCESS);
  EXPECT_EQ(cuMemcpyDtoH(&back, base + size, 4), CUDA_SUCCESS);
  EXPECT_EQ(back, 42);
  EXPECT_EQ(cuMemAddressFree(base, 2 * size), CUDA_ERROR_INVALID_VALUE) << "still mapped";
  EXPECT_EQ(cuMemUnmap(base + size, size), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAddressFree(base, 2 * size), CUDA_SUCCESS);
}

TEST_F(Device, ReadsKernelsOutOfPtx) {
  CUfunction f = loaded_kernel("store");
  size_t offset, size;
  ASSERT_EQ(cuFuncGetParamInfo(f, 2, &offset, &size), CUDA_SUCCESS);
  EXPECT_EQ(offset, 16u);
  EXPECT_EQ(size, 8u);
  EXPECT_EQ(cuFuncGetParamInfo(f, 3, &offset, &size), CUDA_ERROR_INVALID_VALUE);
  int threads;
  ASSERT_EQ(cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, loaded_kernel("packed")),
            CUDA_SUCCESS);
  EXPECT_EQ(threads, 256);
  CUmodule module;
  ASSERT_EQ(cuModuleLoadData(&module, kKernels), CUDA_SUCCESS);
  EXPECT_EQ(cuModuleGetFunction(&f, module, "missing"), CUDA_ERROR_NOT_FOUND);
  CUdeviceptr address;
  EXPECT_EQ(cuModuleGetGlobal(&address, &size, module, "counter"), CUDA_SUCCESS);
  EXPECT_EQ(size, 28u);
  EXPECT_EQ(cuModuleLoadData(&module, "no image"), CUDA_ERROR_INVALID_IMAGE);
}

TEST_F(Device, RefusesImpossibleLaunches) {
  CUfunction f = loaded_kernel("nothing");
  EXPECT_EQ(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cuLaunchKernel(f, 0, 1, 1, 32, 1, 1, 0, nullptr, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuLaunchKernel(f, 1, 1, 1, 2048, 1, 1, 0, nullptr, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 100 << 10, nullptr, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100 << 10), CUDA_SUCCESS);
  EXPECT_EQ(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 100 << 10, nullptr, nullptr, nullptr), CUDA_SUCCESS);
  cudaStream_t other;
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  ASSERT_EQ(cudaStreamCreate(&other), cudaSuccess);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_EQ(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, other, nullptr, nullptr), CUDA_ERROR_INVALID_HANDLE)
      << "another device's stream";
  EXPECT_EQ(cuLaunchKernel(reinterpret_cast<CUfunction>(&f), 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr),
            CUDA_ERROR_INVALID_HANDLE);
}

CUresult launch_store(CUfunction f, void* pointer, void* unread) {
  unsigned n = 1;
  void* arguments[] = {&pointer, &n, &unread};
  return cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr);
}

TEST_F(Device, RemotePointerWithoutPeerAccessIsAStickyError) {
  CUfunction f = loaded_kernel("store");
  void *mine = on(0, 64), *theirs = on(1, 64);
  EXPECT_EQ(launch_store(f, mine, theirs), CUDA_SUCCESS);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess) << "the code does not read that argument";
  EXPECT_EQ(launch_store(f, theirs, nullptr), CUDA_SUCCESS) << "the launch itself succeeds";
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  void* p;
  EXPECT_EQ(cudaMalloc(&p, 1), cudaErrorIllegalAddress);
  char host[64] = {};
  EXPECT_EQ(cudaMemcpy(mine, host, sizeof host, cudaMemcpyHostToDevice), cudaErrorIllegalAddress);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess) << "the other device goes on";
}

TEST_F(Device, ANewParameterOfAGraphIsReadWhenThatIsLaunched) {
  void *mine = on(0, 64), *theirs = on(1, 64), *unread = nullptr;
  unsigned n = 1;
  void* arguments[] = {&mine, &n, &unread};
  CUDA_KERNEL_NODE_PARAMS parameters = {};
  parameters.func = loaded_kernel("store");
  parameters.gridDimX = parameters.gridDimY = parameters.gridDimZ = 1;
  parameters.blockDimX = parameters.blockDimY = parameters.blockDimZ = 1;
  parameters.kernelParams = arguments;
  CUgraph graph;
  CUgraphNode node;
  CUgraphExec exec;
  ASSERT_EQ(cuGraphCreate(&graph, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphAddKernelNode(&node, graph, nullptr, 0, &parameters), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphInstantiate(&exec, graph, 0), CUDA_SUCCESS);
  std::vector<char> pageable(1 << 20);
  for (void* pointer : {theirs, static_cast<void*>(pageable.data()), mine}) {
    arguments[0] = &pointer;
    EXPECT_EQ(cuGraphExecKernelNodeSetParams(exec, node, &parameters), CUDA_SUCCESS);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  }
  EXPECT_EQ(cuGraphLaunch(exec, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess) << "what was set last counts";
  arguments[0] = &theirs;
  EXPECT_EQ(cuGraphExecKernelNodeSetParams(exec, node, &parameters), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphLaunch(exec, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
}

TEST_F(Device, MappedMemoryIsForWhomAccessWasSet) {
  CUfunction f = loaded_kernel("store");
  constexpr size_t kSize = 2u << 20;
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  CUmemGenericAllocationHandle memory;
  CUdeviceptr address;
  ASSERT_EQ(cuMemCreate(&memory, kSize, &properties, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAddressReserve(&address, kSize, 0, 0, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemMap(address, kSize, 0, memory, 0), CUDA_SUCCESS);
  const CUmemAccessDesc access = {properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  ASSERT_EQ(cuMemSetAccess(address, kSize, &access, 1), CUDA_SUCCESS);
  EXPECT_EQ(launch_store(f, reinterpret_cast<void*>(address), nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  const CUmemAccessDesc none = {properties.location, CU_MEM_ACCESS_FLAGS_PROT_NONE};
  ASSERT_EQ(cuMemSetAccess(address, kSize, &none, 1), CUDA_SUCCESS);
  EXPECT_EQ(launch_store(f, reinterpret_cast<void*>(address), nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
}

TEST_F(Device, ATextureIsANumberAndNoAddress) {
  CUDA_RESOURCE_DESC resource = {}, same;
  resource.resType = CU_RESOURCE_TYPE_LINEAR;
  resource.res.linear.sizeInBytes = 64;
  const CUDA_TEXTURE_DESC texture = {};
  CUtexObject object;
  ASSERT_EQ(cuTexObjectCreate(&object, &resource, &texture, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(launch_store(loaded_kernel("store"), reinterpret_cast<void*>(object), nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  ASSERT_EQ(cuTexObjectGetResourceDesc(&same, object), CUDA_SUCCESS);
  EXPECT_EQ(same.res.linear.sizeInBytes, 64u);
  EXPECT_EQ(cuTexObjectDestroy(object), CUDA_SUCCESS);
  EXPECT_EQ(cuTexObjectDestroy(object), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Device, RemotePointerWithPeerAccessIsFine) {
  CUfunction f = loaded_kernel("store");
  void* theirs = on(1, 64);
  ASSERT_EQ(cudaDeviceEnablePeerAccess(1, 0), cudaSuccess);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(1, 0), cudaErrorPeerAccessAlreadyEnabled);
  EXPECT_EQ(launch_store(f, theirs, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

TEST_F(Device, PeersAreThoseOfTheSetting) {  // DEVTRACE_SIM_PEER=0-1,2-3
  int can = -1;
  EXPECT_EQ(cudaDeviceCanAccessPeer(&can, 0, 1), cudaSuccess);
  EXPECT_EQ(can, 1);
  EXPECT_EQ(cudaDeviceCanAccessPeer(&can, 0, 2), cudaSuccess);
  EXPECT_EQ(can, 0);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(2, 0), cudaErrorPeerAccessUnsupported);
}

TEST_F(Device, PageableHostPointerIsAStickyError) {
  CUfunction f = loaded_kernel("store");
  std::vector<char> heap(1 << 20);
  static char constant;
  EXPECT_EQ(launch_store(f, &constant, heap.data()), CUDA_SUCCESS);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess) << "read, but not data: see fault.cpp";
  EXPECT_EQ(launch_store(f, heap.data(), nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
}

TEST_F(Device, PointerInAStructCounts) {
  CUfunction f = loaded_kernel("packed");
  void* words[3] = {on(1, 64), on(0, 64), nullptr};  // only the second is read
  void* arguments[] = {words};
  EXPECT_EQ(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  std::swap(words[0], words[1]);
  EXPECT_EQ(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
}

// As a library that is closed while another thread launches its kernel for the first time.
TEST_F(Device, AnImageIsTakenBackWhileItsKernelIsLookedFor) {
  std::string text = kKernels;
  for (int i = 0; i < 500; ++i) text += ".visible .entry filler" + std::to_string(i) + "(.param .u64 a) { ret; }\n";
  struct {
    int magic = 0x466243b1, version = 1;
    const void* data;
    void* more = nullptr;
  } wrapper{.data = text.c_str()};
  static char stub, name[] = "store";
  ASSERT_EQ(cudaFree(nullptr), cudaSuccess);
  int before = 0;
  for (int round = 0; round < 250; ++round) {
    void** const handle = __cudaRegisterFatBinary(&wrapper);
    __cudaRegisterFunction(handle, &stub, name, name, -1, nullptr, nullptr, nullptr, nullptr, nullptr);
    std::atomic<bool> going{false};
    cudaKernel_t kernel = nullptr;
    std::thread looks([&] {
      going = true;
      before += cudaGetKernel(&kernel, &stub) == cudaSuccess;
    });
    while (!going) {
    }
    if (round == 0) looks.join();  // once it is found for certain: the other rounds take back something that is there
    for (int spin = 0; spin < round; ++spin) asm volatile("");
    __cudaUnregisterFatBinary(handle);
    if (looks.joinable()) looks.join();
    ASSERT_EQ(cudaGetKernel(&kernel, &stub), cudaErrorInvalidDeviceFunction) << "round " << round;
  }
  EXPECT_GT(before, 0);
  cudaGetLastError();
}

TEST_F(Device, ForkedChildIsRefusedAndTheParentGoesOn) {
  void* p = on(0, 64);
  pid_t child = fork();
  if (child == 0) {
    void* q;
    _exit(cudaMalloc(&q, 64) == cudaErrorInitializationError ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(cudaMemset(p, 1, 64), cudaSuccess);
}

}  // namespace

// ---- what a host can still give, by files like those of /proc and /sys

namespace {

using devtrace::simulate::host_available;

class HostMemory : public testing::Test {
 protected:
  void SetUp() override {
    root_ = testing::TempDir() + "host_memory";
    std::filesystem::remove_all(root_);
    write("/proc/meminfo", "MemTotal: 16000 kB\nMemFree: 100 kB\nMemAvailable: 8000 kB\n");
  }
  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  std::string root_;
};

TEST_F(HostMemory, NothingIsKnownWithoutItsFiles) {
  EXPECT_EQ(host_available(root_ + "/none"), std::nullopt);
}

TEST_F(HostMemory, IsWhatTheKernelCallsAvailable) {
  EXPECT_EQ(host_available(root_), 8000u * 1024);
  write("/proc/self/cgroup", "0::/\n");
  write("/sys/fs/cgroup/memory.max", "max\n");
  write("/sys/fs/cgroup/memory.current", "5\n");
  EXPECT_EQ(host_available(root_), 8000u * 1024);
}

TEST_F(HostMemory, TheSmallestLimitOnTheWayUpCounts) {
  write("/proc/self/cgroup", "1:cpu:/other\n0::/job/step\n");
  write("/sys/fs/cgroup/job/step/memory.max", "max\n");
  write("/sys/fs/cgroup/job/memory.max", "5000000\n");
  write("/sys/fs/cgroup/job/memory.current", "3000000\n");
  write("/sys/fs/cgroup/job/memory.stat", "anon 1\ninactive_file 1000000\n");
  EXPECT_EQ(host_available(root_), 3000000u);
  write("/sys/fs/cgroup/job/step/memory.max", "2000\n");
  write("/sys/fs/cgroup/job/step/memory.current", "9000\n");
  EXPECT_EQ(host_available(root_), 0u);
}

TEST_F(HostMemory, TheFirstVersionHasOtherNames) {
  write("/proc/self/cgroup", "9:cpuset,memory:/docker/abc\n");
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "7000000\n");  // seen from inside the container
  write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "1000000\n");
  EXPECT_EQ(host_available(root_), 6000000u);
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(host_available(root_), 8000u * 1024);
}

}  // namespace
