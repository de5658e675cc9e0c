#include "simulate/values/torch/blocks.h"

#include <c10/cuda/CUDACachingAllocator.h>
#include <dlfcn.h>

#include <atomic>
#include <cstdint>
#include <exception>
#include <map>
#include <mutex>

namespace devtrace::simulate::values {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

const UncomputedForTorch* g_uncomputed = nullptr;

struct Blocks {
  std::mutex mutex;
  std::map<uintptr_t, size_t> sizes;  // of those that are given out, by address
};
Blocks& blocks() {
  static auto* one = new Blocks;
  return *one;
}

// Under the allocator's lock. What is given out anew is nobody's result. The entry's namespace is another one since
// PyTorch 2.11.
template <typename TraceEntry>
void note_event(const TraceEntry& entry) {
  Blocks& all = blocks();
  if (entry.action_ == TraceEntry::ALLOC) {
    {
      std::lock_guard lock(all.mutex);
      all.sizes[entry.addr_] = entry.size_;
    }
    g_uncomputed->clear(entry.addr_, entry.size_);
  } else if (entry.action_ == TraceEntry::FREE_COMPLETED) {
    std::lock_guard lock(all.mutex);
    all.sizes.erase(entry.addr_);
  }
}

// From the first kernel on that nobody computes: what is given out is asked for then, later blocks are told. False: the
// allocator tells nobody (cudaMallocAsync's, or one of the program's own); its blocks are the driver's, then.
bool attach() {
  // Not linked: it would bring CUDA's libraries along.
  void* const library = dlopen("libc10_cuda.so", RTLD_NOLOAD | RTLD_LAZY);
  const auto* current = library ? static_cast<const std::atomic<allocator::CUDAAllocator*>*>(
                                      dlsym(library, "_ZN3c104cuda20CUDACachingAllocator9allocatorE"))
                                : nullptr;
  allocator::CUDAAllocator* const own = current ? current->load() : nullptr;
  if (!own || !own->initialized()) return false;
  own->attachAllocatorTraceTracker([](const auto& entry) { note_event(entry); });
  Blocks& all = blocks();
  for (const auto& segment : own->snapshot().segments) {
    uintptr_t at = segment.address;
    std::lock_guard lock(all.mutex);
    for (const auto& block : segment.blocks) {
      if (block.allocated) all.sizes.emplace(at, block.size);
      at += block.size;
    }
  }
  return true;
}

bool block_of(uintptr_t address, uintptr_t* begin, size_t* size) {
  static const bool attached = [] {
    try {
      if (attach()) return true;
    } catch (const std::exception&) {
      // It does not tell.
    }
    g_uncomputed->set_block_of(nullptr);
    return false;
  }();
  if (!attached) return false;
  Blocks& all = blocks();
  std::lock_guard lock(all.mutex);
  auto at = all.sizes.upper_bound(address);
  if (at == all.sizes.begin()) return false;
  --at;
  *begin = at->first;
  *size = at->second;
  return address < *begin + *size;
}

bool is_strided(const at::Tensor& tensor) {
  return tensor.defined() && tensor.layout() == c10::kStrided && tensor.has_storage();
}

bool is_uncomputed(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_cuda()) return false;
  if (!is_strided(tensor)) return true;
  const Span span(tensor);
  return g_uncomputed->find(span.begin, span.size) != 0;
}

bool is_uncomputed(const c10::IValue& value) {
  if (value.isTensor()) return is_uncomputed(value.toTensor());
  if (!value.isTensorList() && !value.isOptionalTensorList()) return false;
  for (const c10::IValue& each : value.toListRef())
    if (is_uncomputed(each)) return true;
  return false;
}

Source source_of(const c10::IValue& value) {
  const auto source = [](const at::Tensor& tensor) {
    const Span span(tensor);
    return g_uncomputed->find(span.begin, span.size);
  };
  if (value.isTensor()) return is_strided(value.toTensor()) ? source(value.toTensor()) : 0;
  if (!value.isTensorList() && !value.isOptionalTensorList()) return 0;
  for (const c10::IValue& each : value.toListRef())
    if (const Source found = source_of(each)) return found;
  return 0;
}

bool is_any() {
  return g_uncomputed && g_uncomputed->any->load(std::memory_order_relaxed);
}

}  // namespace

Span::Span(const at::Tensor& tensor) {
  int64_t length = tensor.numel() ? 1 : 0;
  for (int64_t i = 0; length && i < tensor.dim(); ++i) length += (tensor.size(i) - 1) * tensor.stride(i);
  size = static_cast<size_t>(length) * tensor.element_size();
  if (size) begin = reinterpret_cast<uintptr_t>(tensor.const_data_ptr());
}

// More rows are taken as one piece.
constexpr int64_t kMostRows = 4096;

void set_source(const at::Tensor& tensor, Source source) {
  if (!tensor.is_non_overlapping_and_dense() && tensor.size(0) <= kMostRows) {
    for (int64_t i = 0; i < tensor.size(0); ++i) set_source(tensor.select(0, i), source);
    return;
  }
  const Span span(tensor);
  g_uncomputed->clear(span.begin, span.size);
  g_uncomputed->mark(span.begin, span.size, source);
}

bool is_marked(const at::Tensor& tensor) {
  if (!is_any()) return false;
  const Span span(tensor);
  if (!g_uncomputed->find(span.begin, span.size)) return false;
  if (tensor.is_non_overlapping_and_dense() || !tensor.dim() || tensor.size(0) > kMostRows) return true;
  for (int64_t i = 0; i < tensor.size(0); ++i)  // what is marked may lie between its rows
    if (is_marked(tensor.select(0, i))) return true;
  return false;
}

const UncomputedForTorch* uncomputed_memory() {
  return g_uncomputed;
}

void watch_blocks() {
  uintptr_t begin = 0;
  size_t size = 0;
  block_of(0, &begin, &size);
}

// As in python/uncomputed.py.
bool overwrites(const std::string& name) {
  return name == "aten::copy_" || name == "aten::zero_" || name == "aten::fill_";
}

Followed::Followed(const c10::FunctionSchema& schema, at::ArrayRef<c10::IValue> arguments)
    : overwrites_(overwrites(schema.name())) {
  bool in_place = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    const bool written = argument.alias_info() && argument.alias_info()->isWrite();
    in_place |= written && !argument.is_out();
    read_.push_back(!written);
  }
  overwrites_ |= !in_place;
}

void Followed::follow(at::ArrayRef<c10::IValue> arguments, at::ArrayRef<c10::IValue> results) const {
  if (!is_any()) return;
  Source source = 0;
  for (size_t i = 0; i < arguments.size() && !source; ++i)
    if (read_[i]) source = source_of(arguments[i]);
  for (const c10::IValue& each : results)
    if ((source || overwrites_) && each.isTensor() && is_strided(each.toTensor())) set_source(each.toTensor(), source);
}

void follow_uncomputed() {
  using Table = const UncomputedForTorch* (*)();
  const auto table = reinterpret_cast<Table>(dlsym(RTLD_DEFAULT, "devtrace_sim_uncomputed"));
  if (!table) return;
  g_uncomputed = table();
  g_uncomputed->set_block_of(block_of);
}

bool has_uncomputed(at::ArrayRef<c10::IValue> arguments) {
  if (!is_any()) return false;
  for (const c10::IValue& each : arguments)
    if (is_uncomputed(each)) return true;
  return false;
}

}  // namespace devtrace::simulate::values
