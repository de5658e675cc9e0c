// CPU tensors over the memory of simulated devices: device memory is host memory, so the same bytes serve both.
#pragma once

#include <ATen/EmptyTensor.h>
#include <ATen/SparseTensorImpl.h>
#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/ops/_sparse_coo_tensor_with_dims_and_tensors.h>
#include <c10/core/Storage.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>

namespace devtrace::simulate::values {

// One CPU storage over all of user space: an alias is a strided view of it, whatever the allocator did meanwhile.
inline const c10::Storage& everything() {
#ifdef __x86_64__
  constexpr uintptr_t kStart = 1 << 12, kEnd = uintptr_t{1} << 47;
#else
  constexpr uintptr_t kStart = 1 << 12, kEnd = uintptr_t{1} << 48;
#endif
  static const auto* all = new c10::Storage(c10::Storage::use_byte_size_t(), static_cast<int64_t>(kEnd - 2 * kStart),
                                            c10::DataPtr(reinterpret_cast<void*>(kStart), c10::DeviceType::CPU),
                                            /*allocator=*/nullptr, /*resizable=*/false);
  return *all;
}

// Called with its namespace: at:: has an alias(), too.
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

// The same of a sparse tensor in coordinates, over its parts.
inline std::optional<at::Tensor> sparse_alias(const at::Tensor& tensor) {
  if (tensor.layout() != c10::kSparse || tensor.key_set().has(c10::DispatchKey::Python)) return std::nullopt;
  const auto& sparse = *static_cast<const at::SparseTensorImpl*>(tensor.unsafeGetTensorImpl());
  const std::optional<at::Tensor> indices = values::alias(sparse.indices()), values = values::alias(sparse.values());
  if (!indices || !values) return std::nullopt;
  return at::_sparse_coo_tensor_with_dims_and_tensors(
      sparse.sparse_dim(), sparse.dense_dim(), tensor.sizes(), *indices, *values,
      at::TensorOptions(tensor.dtype()).layout(c10::kSparse).device(c10::kCPU), sparse.coalesced());
}

// Where the value of a result belongs.
inline std::optional<at::Tensor> place_of(const at::Tensor& result) {
  return result.is_cuda() ? values::alias(result) : result;
}

// Makes a CUDA operator's argument one for a CPU kernel; false when it does not fit.
inline bool convert(c10::IValue* value) {
  if (value->isTensor()) {
    const at::Tensor& tensor = value->toTensor();
    if (!tensor.defined() || tensor.is_cpu()) return true;
    if (!tensor.is_cuda()) return false;
    std::optional<at::Tensor> made = tensor.is_sparse() ? sparse_alias(tensor) : values::alias(tensor);
    if (made) *value = c10::IValue(*std::move(made));
    return made.has_value();
  }
  if (value->isTensorList()) {
    c10::List<at::Tensor> list;
    for (const c10::IValue& each : value->toListRef()) {
      c10::IValue one = each;
      if (!convert(&one)) return false;
      list.push_back(std::move(one).toTensor());
    }
    *value = c10::IValue(std::move(list));
    return true;
  }
  if (value->isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const c10::IValue& each : value->toListRef()) {
      c10::IValue one = each;
      if (!convert(&one)) return false;
      list.push_back(one.isNone() ? std::nullopt : std::optional<at::Tensor>(std::move(one).toTensor()));
    }
    *value = c10::IValue(std::move(list));
    return true;
  }
  if (value->isDevice()) *value = c10::IValue(c10::Device(c10::kCPU));
  return !value->isGenerator() || value->toGenerator().device().is_cpu();
}

// Copies the CPU's value to its place. The same shape.
inline void put(const at::Tensor& place, const at::Tensor& value) {
  if (value.scalar_type() == place.scalar_type() && value.strides() == place.strides() && value.is_contiguous() &&
      !value.is_conj() && !value.is_neg())
    std::memcpy(place.mutable_data_ptr(), value.const_data_ptr(), value.nbytes());
  else
    place.copy_(value);
}

inline constexpr c10::DispatchKeySet kCpu(c10::DispatchKey::CPU), kSparseCpu(c10::DispatchKey::SparseCPU);

}  // namespace devtrace::simulate::values
