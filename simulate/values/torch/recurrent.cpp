#include "simulate/values/torch/recurrent.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/add.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros_like.h>

#include <array>
#include <optional>
#include <string_view>

#include "simulate/values/torch/alias.h"

namespace devtrace::simulate::values {
namespace {

using c10::IValue;

// In the type in which CUDA's kernels accumulate. What is undefined or None stays so.
at::Tensor up(const IValue& value) {
  if (!value.isTensor() || !value.toTensor().defined()) return {};
  const at::Tensor& tensor = value.toTensor();
  const bool is_narrow = tensor.scalar_type() == at::kHalf || tensor.scalar_type() == at::kBFloat16;
  return is_narrow ? tensor.to(at::kFloat) : tensor;
}

bool keep(const IValue& result, const at::Tensor& value) {
  if (!result.isTensor()) return result.isNone();
  if (!result.toTensor().defined() || !value.defined()) return true;
  const std::optional<at::Tensor> place = place_of(result.toTensor());
  if (!place || place->sizes() != value.sizes()) return false;
  put(*place, value);
  return true;
}

at::Tensor part(const at::Tensor& gates, int64_t i, int64_t of) {
  const int64_t width = gates.size(1) / of;
  return gates.narrow(1, i * width, width);
}

bool are_gates(at::ArrayRef<IValue> arguments, int64_t parts) {
  for (const IValue& each : arguments.slice(0, 2))
    if (!each.isTensor() || each.toTensor().dim() != 2 || each.toTensor().size(1) % parts) return false;
  return true;
}

// Where a result may be computed in place; else another tensor of its shape. `like`: what is computed.
at::Tensor room(const IValue& result, const at::Tensor& like) {
  if (result.isTensor() && result.toTensor().defined()) {
    std::optional<at::Tensor> place = place_of(result.toTensor());
    if (place && place->scalar_type() == like.scalar_type() && place->sizes() == like.sizes() && place->is_contiguous())
      return *std::move(place);
  }
  return at::empty_like(like);
}

bool is_at(const IValue& result, const at::Tensor& value) {
  return result.isTensor() && result.toTensor().defined() &&
         result.toTensor().const_data_ptr() == value.const_data_ptr();
}

// (input_gates, hidden_gates, cx, input_bias, hidden_bias) -> (hy, cy, workspace)
bool lstm(at::ArrayRef<IValue> arguments, at::ArrayRef<IValue> results) {
  if (!are_gates(arguments, 4)) return false;
  const at::Tensor inputs = up(arguments[0]), hidden = up(arguments[1]), cx = up(arguments[2]);
  if (inputs.sizes() != hidden.sizes()) return false;
  at::Tensor gates = room(results[2], inputs), cy = room(results[1], cx), hy = room(results[0], cx);
  at::add_out(gates, inputs, hidden);
  for (const size_t at : {3, 4})
    if (const at::Tensor bias = up(arguments[at]); bias.defined()) gates.add_(bias);
  part(gates, 0, 2).sigmoid_();
  const at::Tensor i = part(gates, 0, 4), f = part(gates, 1, 4), g = part(gates, 2, 4).tanh_(),
                   o = part(gates, 3, 4).sigmoid_();
  at::mul_out(cy, f, cx).addcmul_(i, g);
  at::tanh_out(hy, cy).mul_(o);
  const std::array<at::Tensor, 3> made = {hy, cy, gates};
  for (size_t at = 0; at < made.size(); ++at)
    if (!is_at(results[at], made[at]) && !keep(results[at], made[at])) return false;
  return true;
}

// 1 - t²
at::Tensor slope_of_tanh(const at::Tensor& t) {
  return (t * t).neg_().add_(1);
}

// t·(1 - t)
at::Tensor slope_of_sigmoid(const at::Tensor& t) {
  return t - t * t;
}

// (grad_hy, grad_cy, cx, cy, workspace, has_bias) -> (of the gates, of cx, of the biases)
bool lstm_backward(at::ArrayRef<IValue> arguments, at::ArrayRef<IValue> results) {
  const at::Tensor gates = up(arguments[4]), grad_hy = up(arguments[0]), grad_cy = up(arguments[1]);
  if (!gates.defined() || gates.dim() != 2 || gates.size(1) % 4) return false;
  const at::Tensor i = part(gates, 0, 4), f = part(gates, 1, 4), g = part(gates, 2, 4), o = part(gates, 3, 4);
  const at::Tensor squashed = up(arguments[3]).tanh();
  at::Tensor total = grad_hy.defined() ? slope_of_tanh(squashed).mul_(grad_hy).mul_(o) : at::zeros_like(squashed);
  if (grad_cy.defined()) total = total + grad_cy;
  const at::Tensor made = at::empty_like(gates);
  part(made, 0, 4).copy_(slope_of_sigmoid(i).mul_(g).mul_(total));
  part(made, 1, 4).copy_(slope_of_sigmoid(f).mul_(up(arguments[2])).mul_(total));
  part(made, 2, 4).copy_(slope_of_tanh(g).mul_(i).mul_(total));
  if (grad_hy.defined())
    part(made, 3, 4).copy_(slope_of_sigmoid(o).mul_(squashed).mul_(grad_hy));
  else
    part(made, 3, 4).zero_();
  const at::Tensor of_biases = arguments[5].toBool() ? made.sum(0) : at::Tensor();
  return keep(results[0], made) && keep(results[1], total * f) && keep(results[2], of_biases);
}

// (input_gates, hidden_gates, hx, input_bias, hidden_bias) -> (hy, workspace)
bool gru(at::ArrayRef<IValue> arguments, at::ArrayRef<IValue> results) {
  if (!are_gates(arguments, 3)) return false;
  at::Tensor inputs = up(arguments[0]), hidden = up(arguments[1]);
  const at::Tensor input_bias = up(arguments[3]), hidden_bias = up(arguments[4]), hx = up(arguments[2]);
  if (input_bias.defined()) inputs = inputs + input_bias;
  if (hidden_bias.defined()) hidden = hidden + hidden_bias;
  const int64_t width = hx.size(1);
  const at::Tensor both = (inputs.narrow(1, 0, 2 * width) + hidden.narrow(1, 0, 2 * width)).sigmoid_();
  const at::Tensor r = part(both, 0, 2), z = part(both, 1, 2), hn = part(hidden, 2, 3);
  const at::Tensor n = part(inputs, 2, 3).addcmul(r, hn).tanh_();
  const at::Tensor hy = (hx - n).mul_(z).add_(n);
  return keep(results[0], hy) && keep(results[1], at::cat({both, n, hx, hn}, 1));
}

// (grad, workspace, has_bias) -> (of the input gates, of the hidden ones, of hx, of the input bias, of the hidden one)
bool gru_backward(at::ArrayRef<IValue> arguments, at::ArrayRef<IValue> results) {
  const at::Tensor grad = up(arguments[0]), workspace = up(arguments[1]);
  if (!grad.defined() || !workspace.defined() || workspace.dim() != 2 || workspace.size(1) % 5) return false;
  const at::Tensor r = part(workspace, 0, 5), z = part(workspace, 1, 5), n = part(workspace, 2, 5),
                   hx = part(workspace, 3, 5), hn = part(workspace, 4, 5);
  const at::Tensor grad_z = slope_of_sigmoid(z).mul_(hx - n).mul_(grad);
  const at::Tensor grad_n = slope_of_tanh(n).mul_(1 - z).mul_(grad);
  const at::Tensor grad_r = slope_of_sigmoid(r).mul_(hn).mul_(grad_n);
  const at::Tensor inputs = at::cat({grad_r, grad_z, grad_n}, 1), hidden = at::cat({grad_r, grad_z, grad_n * r}, 1);
  if (!keep(results[0], inputs) || !keep(results[1], hidden) || !keep(results[2], grad * z)) return false;
  return !arguments[2].toBool() || (keep(results[3], inputs.sum(0)) && keep(results[4], hidden.sum(0)));
}

struct Row {
  std::string_view name;
  RecurrentCell cell;
};
constexpr std::array<Row, 4> kCells = {{
    {"aten::_thnn_fused_lstm_cell", lstm},
    {"aten::_thnn_fused_lstm_cell_backward_impl", lstm_backward},
    {"aten::_thnn_fused_gru_cell", gru},
    {"aten::_thnn_fused_gru_cell_backward", gru_backward},
}};

}  // namespace

RecurrentCell recurrent_cell(const c10::OperatorName& name) {
  if (!name.overload_name.empty()) return nullptr;
  for (const Row& row : kCells)
    if (row.name == name.name) return row.cell;
  return nullptr;
}

}  // namespace devtrace::simulate::values
