// Random numbers as python/randomness.py has them: the CPU's, by the CUDA generator's seed and by how far it is. The
// first ones after a seed are python/'s alone, which go on from each other.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/operator_name.h>

#include <cstdint>
#include <optional>

#include "simulate/values/torch/special.h"

namespace devtrace::simulate::values {

// What one call draws from.
class Draw {
 public:
  // Before the real kernel has run, which moves the generator on. `generator`: the argument, which may be behind the
  // last. Nothing where python/ has to do it.
  static std::optional<Draw> of(at::ArrayRef<c10::IValue> arguments, size_t generator);
  // A generator of the CPU's, the calling thread's own until its next draw.
  at::Generator numbers() const;

  // The generator as it was before the call, for python/, which asks where it is; and on again.
  void go_back();
  void go_on();

 private:
  Draw(at::Generator generator, uint64_t seed, uint64_t offset);

  at::Generator generator_;
  uint64_t seed_, offset_, further_;
};

// python/ knows how the CPU's generator is there: of a device, a seed and an offset.
void is_mirrored(int device, uint64_t seed, uint64_t offset);
void forget_mirrored();

// native_dropout, which takes the generator behind its arguments; null for other operators.
Special dropout_of(const c10::OperatorName& name);

}  // namespace devtrace::simulate::values
