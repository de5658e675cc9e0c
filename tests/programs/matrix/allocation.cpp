#include "tests/programs/matrix/allocation.h"

#include <cstdlib>
#include <type_traits>

#include "tests/programs/matrix/stage.h"

namespace matrix {

namespace {

cudaMemPool_t pool_of(int device) {
  cudaMemPool_t pool;
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = {cudaMemLocationTypeDevice, device};
  CHECK(cuda.cudaMemPoolCreate(&pool, &properties));
  return pool;
}

template <class Parameters>
Parameters of_graph(int device) {
  Parameters p{};
  p.poolProps.allocType = decltype(p.poolProps.allocType)(1);
  p.poolProps.location.type = decltype(p.poolProps.location.type)(1);
  p.poolProps.location.id = device;
  p.bytesize = kBytes;
  return p;
}

void* pointer(CUdeviceptr address) {
  return reinterpret_cast<void*>(address);
}

// What a function gives out through its first argument.
template <class Status, class Pointer, class... Parameters>
void* made(const char* name, Status (*function)(Pointer*, Parameters...),
           std::type_identity_t<Parameters>... arguments) {
  Pointer p{};
  check(static_cast<int>(function(&p, arguments...)), name);
  return reinterpret_cast<void*>(p);
}
#define MADE(function, ...) made(#function, cuda.function, __VA_ARGS__)

}  // namespace

std::vector<Allocation> device_memory() {
  return {
      {"cudaMalloc", false, [](int) { return MADE(cudaMalloc, kBytes); }},
      {"cudaMallocPitch", false,
       [](int) {
         void* p;
         size_t pitch;
         CHECK(cuda.cudaMallocPitch(&p, &pitch, 100, 40));
         return static_cast<void*>(static_cast<char*>(p) + 30 * pitch);
       }},
      {"cudaMalloc3D", false,
       [](int) {
         cudaPitchedPtr p;
         CHECK(cuda.cudaMalloc3D(&p, {100, 20, 3}));
         return static_cast<void*>(static_cast<char*>(p.ptr) + 45 * p.pitch);
       }},
      {"cudaMallocAsync", false, [](int) { return MADE(cudaMallocAsync, kBytes, nullptr); }},
      {"cudaMallocAsync_ptsz", false, [](int) { return MADE(cudaMallocAsync_ptsz, kBytes, nullptr); }},
      {"cudaMallocAsync:captured", false,
       [](int) {
         void* p;
         cudaStream_t stream;
         cudaGraph_t captured;  // stays: the memory is the graph's
         CHECK(cuda.cudaStreamCreate(&stream));
         CHECK(cuda.cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
         CHECK(cuda.cudaMallocAsync(&p, kBytes, stream));
         CHECK(cuda.cudaStreamEndCapture(stream, &captured));
         return p;
       }},
      {"cudaMallocFromPoolAsync", false,
       [](int device) {
         void* p;
         use(0);  // the pool's device counts
         CHECK(cuda.cudaMallocFromPoolAsync(&p, kBytes, pool_of(device), nullptr));
         return p;
       }},
      {"cudaMallocFromPoolAsync_ptsz", false,
       [](int device) { return MADE(cudaMallocFromPoolAsync_ptsz, kBytes, pool_of(device), nullptr); }},
      {"cudaGraphAddMemAllocNode", false,
       [](int device) {
         cudaGraph_t own;
         cudaGraphNode_t added;
         CHECK(cuda.cudaGraphCreate(&own, 0));
         auto p = of_graph<cudaMemAllocNodeParams>(device);
         CHECK(cuda.cudaGraphAddMemAllocNode(&added, own, nullptr, 0, &p));
         return p.dptr;
       }},
      {"cudaGraphAddNode", false,
       [](int device) {
         cudaGraph_t own;
         cudaGraphNode_t added;
         CHECK(cuda.cudaGraphCreate(&own, 0));
         cudaGraphNodeParams p{};
         p.type = cudaGraphNodeTypeMemAlloc;
         p.alloc = of_graph<cudaMemAllocNodeParamsV2>(device);
         CHECK(cuda.cudaGraphAddNode(&added, own, nullptr, nullptr, 0, &p));
         return p.alloc.dptr;
       }},
      {"cuGraphAddMemAllocNode", false,
       [](int device) {
         CUgraph own;
         CUgraphNode added;
         CHECK(cuda.cuGraphCreate(&own, 0));
         auto p = of_graph<CUDA_MEM_ALLOC_NODE_PARAMS>(device);
         CHECK(cuda.cuGraphAddMemAllocNode(&added, own, nullptr, 0, &p));
         return pointer(p.dptr);
       }},
      {"cuGraphAddNode_v2", false,
       [](int device) {
         CUgraph own;
         CUgraphNode added;
         CHECK(cuda.cuGraphCreate(&own, 0));
         CUgraphNodeParams p{};
         p.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
         p.alloc = of_graph<CUDA_MEM_ALLOC_NODE_PARAMS_v2>(device);
         CHECK(cuda.cuGraphAddNode_v2(&added, own, nullptr, nullptr, 0, &p));
         return pointer(p.alloc.dptr);
       }},
      {"cuMemAlloc_v2", false,
       [](int) {
         CUdeviceptr p;
         CHECK(cuda.cuMemAlloc_v2(&p, kBytes));
         return pointer(p + 4097);
       }},
      {"cuMemAllocPitch_v2", false,
       [](int) {
         CUdeviceptr p;
         size_t pitch;
         CHECK(cuda.cuMemAllocPitch_v2(&p, &pitch, 100, 40, 4));
         return pointer(p + 39 * pitch);
       }},
      {"cuMemAllocAsync", false, [](int) { return MADE(cuMemAllocAsync, kBytes, nullptr); }},
      {"cuMemAllocAsync_ptsz", false, [](int) { return MADE(cuMemAllocAsync_ptsz, kBytes, nullptr); }},
      {"cuMemAllocFromPoolAsync", false,
       [](int device) { return MADE(cuMemAllocFromPoolAsync, kBytes, pool_of(device), nullptr); }},
      {"cuMemAllocFromPoolAsync_ptsz", false,
       [](int device) { return MADE(cuMemAllocFromPoolAsync_ptsz, kBytes, pool_of(device), nullptr); }},
      {"cuMemMap", false,
       [](int device) {
         constexpr size_t kSize = 2 << 20;
         CUdeviceptr reserved;
         CUmemGenericAllocationHandle handle;
         CUmemAllocationProp properties{};
         properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
         properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
         CHECK(cuda.cuMemCreate(&handle, kSize, &properties, 0));
         CHECK(cuda.cuMemAddressReserve(&reserved, 3 * kSize, 0, 0, 0));
         use(0);  // where the physical memory lies counts
         CHECK(cuda.cuMemMap(reserved + kSize, kSize, 0, handle, 0));
         const CUmemAccessDesc access{properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
         CHECK(cuda.cuMemSetAccess(reserved + kSize, kSize, &access, 1));
         return pointer(reserved + kSize + 12345);
       }},
  };
}

std::vector<Allocation> shared_memory() {
  return {
      {"cudaMallocManaged", true, [](int) { return MADE(cudaMallocManaged, kBytes, cudaMemAttachGlobal); }},
      {"cuMemAllocManaged", true, [](int) { return MADE(cuMemAllocManaged, kBytes, CU_MEM_ATTACH_GLOBAL); }},
      {"cudaMallocHost", true, [](int) { return MADE(cudaMallocHost, kBytes); }},
      {"cudaHostAlloc", true,
       [](int) { return MADE(cudaHostAlloc, kBytes, cudaHostAllocPortable | cudaHostAllocMapped); }},
      {"cudaHostRegister", true,
       [](int) {
         void* p = std::aligned_alloc(4096, kBytes);
         CHECK(cuda.cudaHostRegister(p, kBytes, cudaHostRegisterPortable));
         return p;
       }},
      {"cuMemAllocHost_v2", true, [](int) { return MADE(cuMemAllocHost_v2, kBytes); }},
      {"cuMemHostAlloc", true, [](int) { return MADE(cuMemHostAlloc, kBytes, CU_MEMHOSTALLOC_PORTABLE); }},
      {"cuMemHostRegister_v2", true,
       [](int) {
         void* p = std::aligned_alloc(4096, kBytes);
         CHECK(cuda.cuMemHostRegister_v2(p, kBytes, 0));
         return p;
       }},
  };
}

}  // namespace matrix
