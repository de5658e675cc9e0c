// The descriptors of CUDA's mathematics libraries: which memory each vector or matrix stands for.
#pragma once

#include <cstddef>
#include <cstdint>

namespace devtrace::memory::library_descriptors {

constexpr size_t kMostAddresses = 3;  // row offsets, columns and values of a sparse matrix

struct Descriptor {
  uint64_t number = 0;
  uint64_t addresses[kMostAddresses] = {};  // the values last; 0: none
  uint64_t key() const { return number; }
};

void made(uint64_t descriptor, const void* const* memory, size_t count);
// Its last `count` addresses are others now.
void changed(uint64_t descriptor, const void* const* memory, size_t count);
void gone(uint64_t descriptor);

// Hot: one look-up without a lock. False: nobody saw it being made.
bool find(uint64_t descriptor, Descriptor& found);

void forget_all();

void before_fork();
void after_fork();

}  // namespace devtrace::memory::library_descriptors
