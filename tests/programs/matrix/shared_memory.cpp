#include <cstdlib>

#include "tests/programs/matrix/allocation.h"
#include "tests/programs/matrix/stage.h"

namespace matrix {

std::vector<Allocation> shared_memory() {
  return {
      {"cudaMallocManaged", true,
       [](int) {
         void* p;
         CHECK(cuda.cudaMallocManaged(&p, kBytes, cudaMemAttachGlobal));
         return p;
       }},
      {"cuMemAllocManaged", true,
       [](int) {
         CUdeviceptr p;
         CHECK(cuda.cuMemAllocManaged(&p, kBytes, CU_MEM_ATTACH_GLOBAL));
         return reinterpret_cast<void*>(p);
       }},
      {"cudaMallocHost", true,
       [](int) {
         void* p;
         CHECK(cuda.cudaMallocHost(&p, kBytes));
         return p;
       }},
      {"cudaHostAlloc", true,
       [](int) {
         void* p;
         CHECK(cuda.cudaHostAlloc(&p, kBytes, cudaHostAllocPortable | cudaHostAllocMapped));
         return p;
       }},
      {"cudaHostRegister", true,
       [](int) {
         void* p = std::aligned_alloc(4096, kBytes);
         CHECK(cuda.cudaHostRegister(p, kBytes, cudaHostRegisterPortable));
         return p;
       }},
      {"cuMemAllocHost_v2", true,
       [](int) {
         void* p;
         CHECK(cuda.cuMemAllocHost_v2(&p, kBytes));
         return p;
       }},
      {"cuMemHostAlloc", true,
       [](int) {
         void* p;
         CHECK(cuda.cuMemHostAlloc(&p, kBytes, CU_MEMHOSTALLOC_PORTABLE));
         return p;
       }},
      {"cuMemHostRegister_v2", true,
       [](int) {
         void* p = std::aligned_alloc(4096, kBytes);
         CHECK(cuda.cuMemHostRegister_v2(p, kBytes, 0));
         return p;
       }},
  };
}

}  // namespace matrix
