// A plan: what it transforms, and where its numbers lie.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "simulate/common/library.h"
#include "simulate/numbers/element.h"
#pragma GCC visibility push(default)
#include <cufftXt.h>
#pragma GCC visibility pop

namespace devtrace::simulate::cufft {

constexpr int kMostDimensions = 3;

// Of the input or the output: in numbers of its type.
struct Layout {
  cudaDataType type = CUDA_C_32F;
  bool given = false;  // else the numbers lie closely, those of a real one in the transform's place with room for it
  std::array<int64_t, kMostDimensions> embed = {};
  int64_t stride = 1, distance = 0;
};

struct Plan {
  CUdevice device = -1;  // that was current when it was made; -1: none
  cudaStream_t stream = nullptr;
  int rank = 0;  // 0: not made yet
  std::array<int64_t, kMostDimensions> sizes = {};
  int64_t batch = 1;
  Layout input, output;
  std::vector<int> devices;  // of a plan for several
  bool has_callback = false;
};

// The work area in bytes: some, so that a program that gives its own allocates it.
constexpr size_t kWorkArea = 1024;

// Does it, from memory to memory, when the stream comes to it.
void transform(const Plan& plan, const void* from, void* to, bool inverse);
// Whether all of its types are computed.
bool is_computed(const Plan& plan);

// Plans by their numbers. False: there is none of that number.
cufftHandle add_plan();
bool remove_plan(cufftHandle number);
bool find_plan(cufftHandle number, Plan* found);
bool set_plan(cufftHandle number, const Plan& plan);

CUdevice current_device();

}  // namespace devtrace::simulate::cufft
