#include "simulate/values/torch/recurrent.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/tanh.h>

#include <array>
#include <optional>
#include <string_view>

#include "simulate/values/torch/alias.h"

namespace devtrace::simulate::values {
namespace {

using c10::IValue;

// A result while it is computed: in its place where that fits, else in a tensor of its own.
template <class T>
class Result {
 public:
  Result(const IValue& result, at::IntArrayRef sizes) : result_(result) {
    constexpr at::ScalarType kType = c10::CppTypeToScalarType<T>::value;
    std::optional<at::Tensor> place;
    if (result.isTensor() && result.toTensor().defined()) place = place_of(result.toTensor());
    in_place_ = place && place->scalar_type() == kType && place->sizes() == sizes && place->is_contiguous();
    value_ = in_place_ ? *std::move(place) : at::empty(sizes, at::TensorOptions(kType).device(at::kCPU));
    data = value_.template mutable_data_ptr<T>();
  }
  bool store() const { return in_place_ || keep_special(result_, value_); }
  const at::Tensor& whole() const { return value_; }
  at::Tensor columns(int64_t from, int64_t width) const { return value_.narrow(1, from, width); }

  T* data;

 private:
  const IValue& result_;
  at::Tensor value_;
  bool in_place_;
};

// Row by row; null where there is none.
template <class T>
struct Operand {
  explicit Operand(const IValue& value) : tensor(up(value)) {
    if (!tensor.defined()) return;
    tensor = tensor.to(c10::CppTypeToScalarType<T>::value).contiguous();
    data = tensor.template const_data_ptr<T>();
  }
  // That of a vector, 0 without one.
  T at(int64_t n) const { return data ? data[n] : T{0}; }

  at::Tensor tensor;
  const T* data = nullptr;
};

bool is_matrix(const IValue& value, int64_t parts) {
  return value.isTensor() && value.toTensor().defined() && value.toTensor().dim() == 2 &&
         value.toTensor().size(1) % parts == 0;
}

bool are_gates(at::ArrayRef<IValue> arguments, int64_t parts) {
  return is_matrix(arguments[0], parts) && is_matrix(arguments[1], parts) &&
         arguments[0].toTensor().sizes() == arguments[1].toTensor().sizes();
}

// (input_gates, hidden_gates, cx, input_bias, hidden_bias) -> (hy, cy, workspace)
template <class T>
bool lstm(at::ArrayRef<IValue> arguments, at::ArrayRef<IValue> results) {
  if (!are_gates(arguments, 4)) return false;
  const Operand<T> inputs(arguments[0]), hidden(arguments[1]), cx(arguments[2]), input_bias(arguments[3]),
      hidden_bias(arguments[4]);
  const int64_t rows = inputs.tensor.size(0), all = inputs.tensor.size(1), width = all / 4;
  const Result<T> hy(results[0], cx.tensor.sizes()), cy(results[1], cx.tensor.sizes()),
      gates(results[2], inputs.tensor.sizes());
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t n = 0, at = row * all; n < all; ++n, ++at)
      gates.data[at] = inputs.data[at] + hidden.data[at] + input_bias.at(n) + hidden_bias.at(n);
  gates.columns(0, 2 * width).sigmoid_();
  gates.columns(2 * width, width).tanh_();
  gates.columns(3 * width, width).sigmoid_();
  for (int64_t at = 0; at < rows * width; ++at) {
    const T* const gate = gates.data + at / width * all + at % width;
    cy.data[at] = gate[width] * cx.data[at] + gate[0] * gate[2 * width];
  }
  at::Tensor squashed = hy.whole();
  at::tanh_out(squashed, cy.whole());
  for (int64_t at = 0; at < rows * width; ++at) hy.data[at] *= gates.data[at / width * all + at % width + 3 * width];
  return hy.store() && cy.store() && gates.store();
}

// (grad_hy, grad_cy, cx, cy, workspace, has_bias) -> (of the gates, of cx, of the biases)
template <class T>
bool lstm_backward(at::ArrayRef<IValue> arguments, at::ArrayRef<IValue> results) {
  if (!is_matrix(arguments[4], 4)) return false;
  const Operand<T> grad_hy(arguments[0]), grad_cy(arguments[1]), cx(arguments[2]), gates(arguments[4]);
  const at::Tensor squashed = Operand<T>(arguments[3]).tensor.tanh();
  const int64_t rows = gates.tensor.size(0), all = gates.tensor.size(1), width = all / 4;
  const Result<T> of_gates(results[0], gates.tensor.sizes()), of_cx(results[1], cx.tensor.sizes());
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t n = 0, at = row * width; n < width; ++n, ++at) {
      const T *const gate = gates.data + row * all + n, i = gate[0], f = gate[width], g = gate[2 * width],
                     o = gate[3 * width], t = squashed.const_data_ptr<T>()[at], h = grad_hy.at(at);
      const T total = h * o * (1 - t * t) + grad_cy.at(at);
      T* const out = of_gates.data + row * all + n;
      out[0] = total * g * i * (1 - i);
      out[width] = total * cx.data[at] * f * (1 - f);
      out[2 * width] = total * i * (1 - g * g);
      out[3 * width] = h * t * o * (1 - o);
      of_cx.data[at] = total * f;
    }
  return of_gates.store() && of_cx.store() &&
         (!arguments[5].toBool() || keep_special(results[2], of_gates.whole().sum(0)));
}

// (input_gates, hidden_gates, hx, input_bias, hidden_bias) -> (hy, workspace: r, z, n, hx, hn)
template <class T>
bool gru(at::ArrayRef<IValue> arguments, at::ArrayRef<IValue> results) {
  if (!are_gates(arguments, 3)) return false;
  const Operand<T> inputs(arguments[0]), hidden(arguments[1]), hx(arguments[2]), input_bias(arguments[3]),
      hidden_bias(arguments[4]);
  const int64_t rows = inputs.tensor.size(0), all = inputs.tensor.size(1), width = all / 3;
  const Result<T> hy(results[0], hx.tensor.sizes()), workspace(results[1], {rows, 5 * width});
  const auto input = [&](int64_t row, int64_t n) { return inputs.data[row * all + n] + input_bias.at(n); };
  const auto of_hidden = [&](int64_t row, int64_t n) { return hidden.data[row * all + n] + hidden_bias.at(n); };
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t n = 0; n < 2 * width; ++n) workspace.data[row * 5 * width + n] = input(row, n) + of_hidden(row, n);
  workspace.columns(0, 2 * width).sigmoid_();
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t n = 0; n < width; ++n) {
      T* const at = workspace.data + row * 5 * width + n;
      at[3 * width] = hx.data[row * width + n];
      at[4 * width] = of_hidden(row, 2 * width + n);
      at[2 * width] = input(row, 2 * width + n) + at[0] * at[4 * width];
    }
  workspace.columns(2 * width, width).tanh_();
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t n = 0; n < width; ++n) {
      const T* const at = workspace.data + row * 5 * width + n;
      hy.data[row * width + n] = (at[3 * width] - at[2 * width]) * at[width] + at[2 * width];
    }
  return hy.store() && workspace.store();
}

// (grad, workspace, has_bias) -> (of the input gates, of the hidden ones, of hx, of the input bias, of the hidden one)
template <class T>
bool gru_backward(at::ArrayRef<IValue> arguments, at::ArrayRef<IValue> results) {
  if (!is_matrix(arguments[1], 5)) return false;
  const Operand<T> grad(arguments[0]), workspace(arguments[1]);
  if (!grad.data) return false;
  const int64_t rows = workspace.tensor.size(0), width = workspace.tensor.size(1) / 5;
  const Result<T> inputs(results[0], {rows, 3 * width}), hidden(results[1], {rows, 3 * width}),
      of_hx(results[2], {rows, width});
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t n = 0; n < width; ++n) {
      const T *const at = workspace.data + row * 5 * width + n, r = at[0], z = at[width], made = at[2 * width],
                     hx = at[3 * width], hn = at[4 * width], g = grad.data[row * width + n];
      const T of_n = g * (1 - z) * (1 - made * made);
      T *const input = inputs.data + row * 3 * width + n, *const other = hidden.data + row * 3 * width + n;
      input[0] = other[0] = of_n * hn * (1 - r) * r;
      input[width] = other[width] = g * (hx - made) * (1 - z) * z;
      input[2 * width] = of_n;
      other[2 * width] = of_n * r;
      of_hx.data[row * width + n] = g * z;
    }
  if (!inputs.store() || !hidden.store() || !of_hx.store()) return false;
  return !arguments[2].toBool() ||
         (keep_special(results[3], inputs.whole().sum(0)) && keep_special(results[4], hidden.whole().sum(0)));
}

// By the type of the argument that the gates are in.
template <Special in_float, Special in_double, size_t gates>
bool in_type(at::ArrayRef<IValue> arguments, at::ArrayRef<IValue> results) {
  const at::Tensor like = up(arguments[gates]);
  return (like.defined() && like.scalar_type() == at::kDouble ? in_double : in_float)(arguments, results);
}

struct Row {
  std::string_view name;
  Special cell;
};
constexpr std::array<Row, 4> kCells = {{
    {"aten::_thnn_fused_lstm_cell", in_type<lstm<float>, lstm<double>, 0>},
    {"aten::_thnn_fused_lstm_cell_backward_impl", in_type<lstm_backward<float>, lstm_backward<double>, 4>},
    {"aten::_thnn_fused_gru_cell", in_type<gru<float>, gru<double>, 0>},
    {"aten::_thnn_fused_gru_cell_backward", in_type<gru_backward<float>, gru_backward<double>, 1>},
}};

}  // namespace

Special recurrent_cell(const c10::OperatorName& name) {
  if (!name.overload_name.empty()) return nullptr;
  for (const Row& row : kCells)
    if (row.name == name.name) return row.cell;
  return nullptr;
}

}  // namespace devtrace::simulate::values
