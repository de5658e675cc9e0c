#include "simulate/values/torch/random.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>

#include <exception>
#include <mutex>
#include <set>
#include <tuple>
#include <utility>

#include "simulate/values/torch/alias.h"

namespace devtrace::simulate::values {
namespace {

using c10::IValue;

struct Mirrored {
  std::mutex mutex;
  std::set<std::tuple<int, uint64_t, uint64_t>> places;
};
Mirrored& mirrored() {
  static auto* const one = new Mirrored;
  return *one;
}

bool goes_on(int device, uint64_t seed, uint64_t offset) {
  if (!offset) return true;
  Mirrored& all = mirrored();
  const std::lock_guard lock(all.mutex);
  return !all.places.empty() && all.places.contains({device, seed, offset});
}

std::optional<c10::Device> device_of(at::ArrayRef<IValue> arguments) {
  for (const IValue& each : arguments)
    if (each.isTensor() && each.toTensor().defined() && each.toTensor().is_cuda()) return each.toTensor().device();
  return std::nullopt;
}

// (input, p, train, generator) -> (output, mask)
bool dropout(at::ArrayRef<IValue> arguments, at::ArrayRef<IValue> results) {
  if (!arguments[0].isTensor() || (arguments[2].isBool() && !arguments[2].toBool())) return false;
  const at::Tensor& input = arguments[0].toTensor();
  const double p = arguments[1].toDouble();
  const std::optional<at::Tensor> output = place_of(results[0].toTensor()), kept = place_of(results[1].toTensor());
  if (!output || !kept || output->sizes() != input.sizes() || kept->sizes() != input.sizes()) return false;
  at::Tensor mask = at::empty_like(input).bernoulli_(1 - p, arguments[3].toGenerator());
  kept->copy_(mask);
  if (p < 1) mask.div_(1 - p);
  output->copy_(mask.mul_(input));
  return true;
}

}  // namespace

Draw::Draw(at::Generator generator, uint64_t seed, uint64_t offset)
    : generator_(std::move(generator)), seed_(seed), offset_(offset), further_(offset) {}

std::optional<Draw> Draw::of(at::ArrayRef<IValue> arguments, size_t at) {
  try {
    at::Generator generator;
    if (at < arguments.size() && arguments[at].isGenerator())
      generator = arguments[at].toGenerator();
    else if (const std::optional<c10::Device> device = device_of(arguments))
      generator = at::globalContext().defaultGenerator(*device);
    if (!generator.defined() || !generator.device().is_cuda()) return std::nullopt;
    const uint64_t seed = generator.current_seed(), offset = generator.get_offset();
    if (goes_on(generator.device().index(), seed, offset)) return std::nullopt;
    return Draw(std::move(generator), seed, offset);
  } catch (const std::exception&) {
    return std::nullopt;  // a graph captures it
  }
}

at::Generator Draw::numbers() const {
  static thread_local at::Generator own = at::detail::createCPUGenerator();
  own.set_current_seed((seed_ + offset_ * 0x9E3779B97F4A7C15) & 0x7FFFFFFFFFFFFFFF);
  return own;
}

void Draw::go_back() {
  further_ = generator_.get_offset();
  generator_.set_offset(offset_);
}

void Draw::go_on() {
  generator_.set_offset(further_);
}

void is_mirrored(int device, uint64_t seed, uint64_t offset) {
  Mirrored& all = mirrored();
  const std::lock_guard lock(all.mutex);
  all.places.insert({device, seed, offset});
}

void forget_mirrored() {
  Mirrored& all = mirrored();
  const std::lock_guard lock(all.mutex);
  all.places.clear();
}

Special dropout_of(const c10::OperatorName& name) {
  return name.name == "aten::native_dropout" && name.overload_name.empty() ? dropout : nullptr;
}

}  // namespace devtrace::simulate::values
