// What the kernels of torch/ are told of memory that nobody computed.
#include "simulate/values/large.h"
#include "simulate/values/uncomputed.h"
#include "simulate/values/unknown.h"

extern "C" __attribute__((visibility("default"))) const devtrace::simulate::values::UncomputedForTorch*
devtrace_sim_uncomputed() {
  using namespace devtrace::simulate::values;
  static const UncomputedForTorch table = {
      &uncomputed().any,
      [](uintptr_t begin, size_t size) { return uncomputed().find(begin, size); },
      [](uintptr_t begin, size_t size, Source source) { uncomputed().mark(begin, size, source); },
      [](uintptr_t begin, size_t size) { uncomputed().clear(begin, size); },
      set_block_of,
      [] {
        kernels_follow_unknown();
        return &large_bytes();
      }(),
      unknown_source(),
      unknown_is_left,
      [] { unknown_is_read(true); },
  };
  return &table;
}
