// CPU tensors over the memory of simulated devices: device memory is host memory, so the same bytes serve both.
#pragma once

#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

#include <cstdint>
#include <optional>

namespace devtrace::sim::values {

// One CPU storage over all of user space: an alias is a strided view of it, whatever the allocator did meanwhile.
inline const c10::Storage& everything() {
  constexpr uintptr_t kStart = 1 << 12, kEnd = uintptr_t{1} << 47;
  static const auto* all = new c10::Storage(c10::Storage::use_byte_size_t(), static_cast<int64_t>(kEnd - 2 * kStart),
                                            c10::DataPtr(reinterpret_cast<void*>(kStart), c10::DeviceType::CPU),
                                            /*allocator=*/nullptr, /*resizable=*/false);
  return *all;
}

// A CPU tensor of the same type, shape and strides over the bytes of a dense CUDA tensor. Nothing for tensors that this
// does not fit: wrappers and sparse ones, lazily conjugated, negated or zero ones, and addresses off the type's grid.
inline std::optional<at::Tensor> alias(const at::Tensor& tensor) {
  using Key = c10::DispatchKey;
  constexpr auto kOthers = c10::DispatchKeySet({Key::Conjugate, Key::Negative, Key::ZeroTensor, Key::Python});
  if (tensor.layout() != c10::kStrided || !tensor.has_storage() || tensor.key_set().has_any(kOthers))
    return std::nullopt;
  const auto address = reinterpret_cast<uintptr_t>(tensor.const_data_ptr());
  if (!address)  // no elements
    return at::detail::empty_strided_cpu(tensor.sizes(), tensor.strides(), tensor.scalar_type());
  const uintptr_t offset = address - reinterpret_cast<uintptr_t>(everything().data()), size = tensor.element_size();
  if (offset % size) return std::nullopt;
  auto made = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(everything()), c10::DispatchKeySet(Key::CPU),
                                                       tensor.dtype());
  made.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides(),
                                                    static_cast<int64_t>(offset / size));
  return made;
}

}  // namespace devtrace::sim::values
