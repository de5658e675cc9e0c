// Roundings other than to the nearest: the processor's own, for the time of a step.
#pragma once

#include "simulate/kernels/decoder.h"

namespace devtrace::simulate::kernels {

struct Slots {
  Slot d = kNoSlot, a = kNoSlot, b = kNoSlot, c = kNoSlot;
};
// Emits the step between two that set the rounding that the instruction names, and set it back.
Step& emit_rounded(Decoder& d, Handler run, const Slots& slots);

}  // namespace devtrace::simulate::kernels
