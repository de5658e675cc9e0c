// Stream-ordered memory pools: accounts over the device's arena. What is freed goes back at once, so nothing is ever
// held back.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "simulate/common/cuda_headers.h"
#include "simulate/model/memory/memory.h"

struct CUmemPoolHandle_st {
  int device = 0;
  bool is_default = false;
  bool imported = false;  // another process's: gives out nothing
  CUmemPoolProps properties = {};
  std::atomic<uint64_t> used{0}, used_high{0};
  uint64_t release_threshold = 0;
  int reuse[3] = {1, 1, 1};
  std::atomic<uint32_t> access{0};  // bit per other device ordinal
};

namespace devtrace::simulate {

CUmemoryPool create_pool(int device, bool is_default);
CUmemoryPool default_pool(int device);
CUmemoryPool current_pool(int device);
CUresult pool_allocate(CUmemoryPool pool, size_t size, CUcontext context, CUdeviceptr* address);
// Whether pool_free() takes it.
bool pool_may_free(const Allocation& allocation);
// For pool, graph and other device memory alike, also what was imported into a pool.
CUresult pool_free(CUdeviceptr address);

// What a graph's node allocates: at one address for as long as a graph or an executable names it. It is in use from
// each launch until it is freed, in the graph or outside.
class GraphMemory {
 public:
  static CUresult allocate(CUmemoryPool pool, size_t size, CUcontext context, std::shared_ptr<GraphMemory>* memory);
  // Still in use: what the program has not freed stays, as ordinary memory of its pool.
  ~GraphMemory();
  GraphMemory(const GraphMemory&) = delete;
  GraphMemory& operator=(const GraphMemory&) = delete;

  CUdeviceptr address() const { return address_; }
  bool in_use() const { return in_use_; }
  // A launch reaches its node.
  void begin();
  // False: it was not in use.
  bool end();

 private:
  GraphMemory() = default;

  CUdeviceptr address_ = 0;
  size_t size_ = 0;
  CUmemoryPool pool_ = nullptr;
  std::atomic<bool> in_use_{false};
};

// Bytes of graphs' memory on a device, and the most that they were.
struct GraphMemoryUse {
  std::atomic<uint64_t> used{0}, used_high{0}, reserved{0}, reserved_high{0};
};
GraphMemoryUse& graph_memory_use(int ordinal);

}  // namespace devtrace::simulate
