// What is made of a value in memory and another one, by atomic operations of many bytes at once.
#pragma once

#include <cstdint>

#include "simulate/kernels/decoder.h"

namespace devtrace::simulate::kernels {

enum class Reduction : uint8_t { none, add, min, max, inc, dec, bit_and, bit_or, bit_xor };

// Among the instruction's modifiers.
Reduction reduction_named(const Decoder& d);
// Changes what lies there by what lies at `value`, at once; null: the type has no such operation.
using Reduce = void (*)(uint8_t* there, const uint8_t* value);
Reduce reduction(Reduction which, ptx::Type type);

}  // namespace devtrace::simulate::kernels
