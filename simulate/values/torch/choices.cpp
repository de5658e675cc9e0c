#include "simulate/values/torch/choices.h"

#include <ATen/ops/arange.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace devtrace::simulate::values::unknown {
namespace {

constexpr std::array<std::string_view, 10> kChoosing = {
    "aten::argmax", "aten::argmin",    "aten::max",  "aten::min",         "aten::mode",
    "aten::median", "aten::nanmedian", "aten::topk", "aten::multinomial", "aten::kthvalue"};

// The dimension that is chosen along; nothing: among all elements.
std::optional<int64_t> dimension(const c10::FunctionSchema& schema, at::ArrayRef<c10::IValue> arguments,
                                 const at::Tensor& from) {
  if (!from.dim()) return std::nullopt;
  if (schema.name() == "aten::multinomial") return from.dim() - 1;
  const auto at = schema.argumentIndexWithName("dim");
  if (!at || !arguments[static_cast<size_t>(*at)].isInt()) return std::nullopt;
  const int64_t dim = arguments[static_cast<size_t>(*at)].toInt();
  return dim < 0 ? dim + from.dim() : dim;
}

// Counts along one dimension, the same in all others.
at::Tensor along(int64_t dim, int64_t length, at::IntArrayRef sizes) {
  std::vector<int64_t> shape(sizes.size(), 1);
  shape[static_cast<size_t>(dim)] = length;
  return at::arange(length, at::kLong).view(shape);
}

// Each row's number, where a dimension holds one row's choices.
at::Tensor rows(int64_t dim, at::IntArrayRef sizes) {
  std::vector<int64_t> shape = sizes.vec();
  shape[static_cast<size_t>(dim)] = 1;
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return at::arange(count, at::kLong).view(shape);
}

}  // namespace

std::optional<at::Tensor> choice(const c10::FunctionSchema& schema, at::ArrayRef<c10::IValue> arguments,
                                 const at::Tensor& indices) {
  const std::string_view name = schema.name();
  const bool sorts = name == "aten::sort";
  if (!sorts && std::find(kChoosing.begin(), kChoosing.end(), name) == kChoosing.end()) return std::nullopt;
  const at::Tensor& from = arguments[0].toTensor();
  const std::optional<int64_t> dim = dimension(schema, arguments, from);
  const int64_t among = dim ? from.size(*dim) : from.numel();
  if (!among) return std::nullopt;
  if (sorts)
    return dim ? along(*dim, among, indices.sizes()).expand(indices.sizes()) : at::arange(1, at::kLong).view({});
  const bool several = name == "aten::topk" || name == "aten::multinomial";
  if (!several || !dim) {  // one of a row
    const at::Tensor row = at::arange(indices.numel(), at::kLong).view(indices.sizes());
    return row.add(among / 2).remainder(among);
  }
  const int64_t count = indices.size(*dim);
  const at::Tensor first = rows(*dim, indices.sizes()).mul(count).add(among / 2);
  return first.add(along(*dim, count, indices.sizes())).remainder(among);
}

}  // namespace devtrace::simulate::values::unknown
