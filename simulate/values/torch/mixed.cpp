#include "simulate/values/torch/mixed.h"

#include <ATen/ops/to.h>
#include <torch/csrc/autograd/function.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

namespace devtrace::simulate::values {
namespace {

// Calls visit(tensor), which may change it, for each of an argument: one, or a list of them.
template <class Visit>
void each_tensor(c10::IValue& argument, const Visit& visit) {
  const auto one = [&](at::Tensor tensor) {
    if (tensor.defined()) visit(tensor);
    return tensor;
  };
  if (argument.isTensor()) {
    argument = one(argument.toTensor());
  } else if (argument.isTensorList()) {
    c10::List<at::Tensor> all;
    for (const at::Tensor& each : argument.toTensorVector()) all.push_back(one(each));
    argument = all;
  } else if (argument.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> all;
    for (const std::optional<at::Tensor>& each : argument.toOptionalTensorVector())
      all.push_back(each ? std::optional(one(*each)) : std::nullopt);
    argument = all;
  }
}

bool writes_to(const c10::Argument& argument) {
  return argument.alias_info() && argument.alias_info()->isWrite();
}

}  // namespace

bool keeps_going() {
  static const bool asked = [] {
    const char* const value = std::getenv("DEVTRACE_SIM_KEEP_GOING");
    return value && *value;
  }();
  return asked;
}

bool in_backward() {
  return torch::autograd::get_current_node() != nullptr;
}

std::optional<c10::Device> bring_together(const c10::FunctionSchema& schema, torch::jit::Stack* arguments) {
  std::map<c10::Device, size_t, bool (*)(c10::Device, c10::Device)> bytes(
      [](c10::Device a, c10::Device b) { return a.type() != b.type() ? a.type() < b.type() : a.index() < b.index(); });
  auto written = bytes;
  for (size_t i = 0; i < arguments->size(); ++i)
    each_tensor((*arguments)[i], [&](const at::Tensor& tensor) {
      if (tensor.is_cpu() && tensor.dim() == 0) return;  // a number goes with any
      bytes[tensor.device()] += tensor.nbytes();
      if (writes_to(schema.arguments()[i])) written[tensor.device()] += tensor.nbytes();
    });
  if (bytes.size() < 2 || written.size() > 1) return std::nullopt;
  const auto less = [](const auto& one, const auto& other) {
    return std::pair(one.first.is_cuda(), one.second) < std::pair(other.first.is_cuda(), other.second);
  };
  const c10::Device device =
      written.empty() ? std::max_element(bytes.begin(), bytes.end(), less)->first : written.begin()->first;
  for (c10::IValue& argument : *arguments)
    each_tensor(argument, [&](at::Tensor& tensor) {
      if (tensor.device() != device) tensor = tensor.to(device);
    });
  return device;
}

}  // namespace devtrace::simulate::values
