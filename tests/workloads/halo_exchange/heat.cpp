// Heat in a plate that is cut into one slab for each of two GPUs. Each step every slab advances, and gives its
// neighbours its outermost row; now and then cuBLAS tells how much heat there is.
//
// The defect: `advance` launches its kernel on whatever device is current, and that is the last slab's: it was made
// last, and its heat is summed up last. With --fixed each slab's device is made current first.
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "halo.h"
#include "stencil.h"

static float heat(const std::vector<std::unique_ptr<Slab>>& slabs) {
  float sum = 0;
  for (const auto& slab : slabs) {
    check(cudaSetDevice(slab->device), "device");
    float part = 0;
    cublasSasum(slab->blas, slab->rows * slab->columns, slab->field + slab->columns, 1, &part);
    check(cudaStreamSynchronize(slab->stream), "sum");
    sum += part;
  }
  return sum;
}

int main(int count, char** words) {
  const bool fixed = count > 1 && std::strcmp(words[1], "--fixed") == 0;
  constexpr int kDevices = 2, kRows = 64, kColumns = 256, kSteps = 8;
  std::vector<std::unique_ptr<Slab>> slabs;
  for (int device = 0; device < kDevices; ++device) slabs.push_back(std::make_unique<Slab>(device, kRows, kColumns));
  for (int step = 0; step < kSteps; ++step) {
    for (auto& slab : slabs) {
      if (fixed) check(cudaSetDevice(slab->device), "device");
      advance(*slab);
      check(cudaDeviceSynchronize(), "step");
    }
    for (size_t i = 0; i + 1 < slabs.size(); ++i) exchange(*slabs[i], *slabs[i + 1]);
    if (step % 4 == 3) std::printf("heat after %d steps: %g\n", step + 1, heat(slabs));
  }
  std::puts("done");
}
