// The memory that PyTorch does not allocate but map: weights out of a file, tensors that another process shares. Its
// allocators' reports leave them out, and a model's weights are the tensors that most need an origin.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "interpose/pytorch/hook.h"
#include "tracker/base/address_map.h"
#include "tracker/events.h"

namespace events = devtrace::events;

namespace {

// Which memory an at::MapAllocator mapped. Asked for when it is made: at its end the derived class has already
// forgotten.
struct Mapping {
  uintptr_t allocator = 0;
  uintptr_t base = 0;
  uint64_t key() const { return allocator; }
};
constinit devtrace::AddressMap<Mapping> mappings;

// `virtual void* data() const` is the class's first; while its constructor runs it is the base class's, which gives the
// start of the mapping.
void* data_of(const void* allocator) {
  using Data = void* (*)(const void*);
  return (**static_cast<Data* const*>(allocator))(allocator);
}

[[gnu::noinline]] void on_mapped(const void* allocator, size_t bytes) noexcept {
  // 0: the whole file, whose size only the object knows. PyTorch's own Python always says it.
  if (bytes == 0 || !events::wants_blocks()) return;
  void* const base = data_of(allocator);
  if (!base) return;
  mappings.put({reinterpret_cast<uintptr_t>(allocator), reinterpret_cast<uintptr_t>(base)});
  events::block_given(base, bytes, devtrace::Device::cpu());
}

// Before the memory goes: afterwards another thread may already have been given the same address.
[[gnu::noinline]] void on_unmapped(const void* allocator) noexcept {
  Mapping mapping;
  if (mappings.take(reinterpret_cast<uintptr_t>(allocator), mapping))
    events::block_taken(reinterpret_cast<const void*>(mapping.base));
}

}  // namespace

// at::WithFd is an empty enumeration that is passed like an int. A constructor that raises has mapped nothing.
#define MAPPED(name, symbol)                                                                                          \
  PYTORCH_HOOK(void, name, (void* self, int with_fd, std::string_view file, int descriptor, int flags, size_t bytes), \
               symbol) {                                                                                              \
    ORIGINAL_AS(symbol, name)(self, with_fd, file, descriptor, flags, bytes);                                         \
    on_mapped(self, bytes);                                                                                           \
  }
#define UNMAPPED(name, symbol)                     \
  PYTORCH_HOOK(void, name, (void* self), symbol) { \
    on_unmapped(self);                             \
    ORIGINAL_AS(symbol, name)(self);               \
  }
MAPPED(mapped, _ZN2at12MapAllocatorC1ENS_6WithFdESt17basic_string_viewIcSt11char_traitsIcEEiim)
MAPPED(mapped_base, _ZN2at12MapAllocatorC2ENS_6WithFdESt17basic_string_viewIcSt11char_traitsIcEEiim)
MAPPED(mapped_up_to_2_6, _ZN2at12MapAllocatorC1ENS_6WithFdEN3c1017basic_string_viewIcEEiim)
MAPPED(mapped_base_up_to_2_6, _ZN2at12MapAllocatorC2ENS_6WithFdEN3c1017basic_string_viewIcEEiim)
UNMAPPED(unmapped, _ZN2at12MapAllocatorD1Ev)
UNMAPPED(unmapped_base, _ZN2at12MapAllocatorD2Ev)
