// Memory that a library's pool gives out again and again without a call of CUDA's. Each part of it that is in use is
// known by the Python object that stands for it, CuPy's PooledMemory; where the part lies only the object says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "tracker/memory/provenance.h"

namespace devtrace::memory::pooled_memory {

// Hot: no malloc, no lock held while calling out. An object of so many bytes was made, and is not filled in yet; or it
// is about to be freed.
void made(uintptr_t object, size_t bytes);
void gone(uintptr_t object);

// The part of an allocation of CUDA's that an address lies in, with the statement for which the pool gave it out.
// Nothing when no live object says that it stands for it. For findings only: a microsecond an object.
std::optional<provenance::Block> part_at(uintptr_t address, const provenance::Block& allocation);

// When devtrace is attached again: what came and went in between, nobody saw.
void forget_all();

void before_fork();
void after_fork();

}  // namespace devtrace::memory::pooled_memory
