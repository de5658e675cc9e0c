// What bulk copies share, of plain bytes and of tensors.
#pragma once

#include <cstdint>

#include "simulate/kernels/decoder.h"
#include "simulate/kernels/instructions/reach.h"

namespace devtrace::simulate::kernels {

// The same address in the shared memory of the cluster's block of that rank.
inline uint64_t in_block(uint64_t address, uint32_t rank) {
  return (address & ((uint64_t{1} << kRankShift) - 1)) | (uint64_t{rank} + 1) << kRankShift;
}

// 64 bits, with what is added to it.
Slot whole_address(Decoder& d, const Decoder::Address& at);

// ... of a tensor map.
bool decode_tensor(Decoder& d);

}  // namespace devtrace::simulate::kernels
