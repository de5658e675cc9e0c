// The modules and caches that are alive in this process, and on which device each of their tensors lies.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tracker/evidence/objects/torch_objects.h"
#include "tracker/memory/live_memory.h"

namespace devtrace::placement {

struct PlacedTensor {
  std::string name;     // from the root: "model.layers.3.self_attn.q_proj.weight", "layers.0.keys"
  const char* kind;     // docs/reference/log.md: parameter, buffer, cache, attribute
  std::string device;   // "cuda:0"; of what accelerate offloads "meta", whenever it is asked
  int64_t bytes = 0;    // elements times their size
  std::string same_as;  // the name under which the same tensor came before
};

// A module that is no other's child, or a cache that no module holds. Wrappers around one module that have no tensor of
// their own (DistributedDataParallel, torch.compile's) are looked through.
struct PlacedRoot {
  uintptr_t object = 0;  // tells it from others while it lives
  std::string name;      // its class
  std::string variable;  // what holds it: "teacher", "models[1]"; only where several of one class are alive
  std::vector<PlacedTensor> tensors;
  size_t left_out = 0;  // tensors for which there was no room, or whose device nobody may ask for
};

// A tensor on a CUDA device, and what it is there for.
struct UsedTensor {
  uintptr_t storage = 0;  // where its storage begins
  memory::live_memory::Use use = memory::live_memory::Use::other;
};

struct LiveModules {
  struct Part {
    uintptr_t object = 0;
    std::string name;  // its class
    uintptr_t root = 0;
  };
  std::vector<PlacedRoot> roots;  // those with tensors, in the order in which Python began to track them
  std::vector<Part> parts;        // those of `wanted` that live and are parts of a root
  std::vector<UsedTensor> used;   // weights with their gradients, caches, and what optimizers keep
  bool cut = false;               // there are more objects, or more roots, than were looked at
};

inline constexpr size_t kMostObjects = 20'000'000;  // that Python's collector tracks
inline constexpr size_t kMostRoots = 200;
inline constexpr size_t kMostPlaced = 50'000;  // tensors, over all roots

// Under a Gil; where there is none, under the thread's KeptReferences, too. Runs no code of the user's; the collector
// does not run meanwhile. About 20 ns for each object that Python's collector tracks and some microseconds for each
// tensor. `wanted`: see LiveModules.
LiveModules live_modules(const python::Api& api, const evidence::Torch& torch, const std::vector<uintptr_t>& wanted);

}  // namespace devtrace::placement
