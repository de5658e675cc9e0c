#include "simulate/values/torch/later.h"

#include <ATen/ops/empty_strided.h>
#include <dlfcn.h>

#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

#include "simulate/values/torch/alias.h"
#include "simulate/values/torch/blocks.h"

namespace devtrace::simulate::values {
namespace {

using c10::IValue;
using torch::jit::Stack;

const Asynchronous* functions() {
  using Find = const Asynchronous* (*)();
  static const auto find = reinterpret_cast<Find>(dlsym(RTLD_DEFAULT, "devtrace_sim_asynchronous"));
  return find ? find() : nullptr;
}

// `written`: by the operator.
std::optional<at::Tensor> keep(const at::Tensor& tensor, bool written, HostTensors host) {
  if (!tensor.defined()) return tensor;
  if (tensor.is_cuda()) return values::alias(tensor);
  if (!tensor.is_cpu()) return std::nullopt;
  if (host == HostTensors::kShared) return tensor;
  if (tensor.layout() == c10::kStrided && tensor.has_storage() && tensor.numel() &&
      functions()->outlives_call(reinterpret_cast<uintptr_t>(tensor.const_data_ptr())))
    return values::alias(tensor);
  if (written) return std::nullopt;
  at::Tensor copy = tensor.clone();
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) copy.unsafeGetTensorImpl()->set_wrapped_number(true);
  return copy;
}

bool keep(IValue* value, bool written, HostTensors host) {
  if (value->isTensor()) {
    std::optional<at::Tensor> kept = keep(value->toTensor(), written, host);
    if (kept) *value = IValue(*std::move(kept));
    return kept.has_value();
  }
  if (value->isTensorList()) {
    c10::List<at::Tensor> list;
    for (const IValue& each : value->toListRef()) {
      std::optional<at::Tensor> kept = keep(each.toTensor(), written, host);
      if (!kept) return false;
      list.push_back(*std::move(kept));
    }
    *value = IValue(std::move(list));
    return true;
  }
  if (value->isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const IValue& each : value->toListRef()) {
      std::optional<at::Tensor> kept;
      if (!each.isNone() && !(kept = keep(each.toTensor(), written, host))) return false;
      list.push_back(std::move(kept));
    }
    *value = IValue(std::move(list));
    return true;
  }
  if (value->isDevice()) *value = IValue(c10::Device(c10::kCPU));
  return !value->isGenerator();
}

at::Tensor zeros_of(const at::Tensor& tensor) {
  return tensor.defined() ? at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options()).zero_() : tensor;
}

void fill_with_zeros(IValue* value) {
  if (value->isTensor()) {
    const bool number = value->toTensor().defined() && value->toTensor().unsafeGetTensorImpl()->is_wrapped_number();
    if (!number) *value = IValue(zeros_of(value->toTensor()));
  } else if (value->isTensorList()) {
    c10::List<at::Tensor> list;
    for (const IValue& each : value->toListRef()) list.push_back(zeros_of(each.toTensor()));
    *value = IValue(std::move(list));
  } else if (value->isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const IValue& each : value->toListRef())
      list.push_back(each.isNone() ? std::nullopt : std::optional(zeros_of(each.toTensor())));
    *value = IValue(std::move(list));
  }
}

// What decides whether the CPU's kernel takes these: types and, but for their sizes, shapes.
void describe(const IValue& value, std::string* key) {
  const auto add = [&](const at::Tensor& t) {
    if (!t.defined()) return key->push_back('u');
    *key += std::to_string(static_cast<int>(t.scalar_type())) + (t.is_contiguous() ? 'c' : 's');
    *key += std::to_string(t.dim()) + (t.numel() ? "" : "e");
    for (const int64_t size : t.sizes()) key->push_back(size == 1 ? '1' : 'n');
  };
  if (value.isTensor()) return add(value.toTensor());
  if (value.isTensorList() || value.isOptionalTensorList()) {
    for (const IValue& each : value.toListRef())
      if (each.isTensor()) add(each.toTensor());
    return key->push_back(']');
  }
  key->push_back(value.isNone() ? '-' : value.isBool() ? (value.toBool() ? 't' : 'f') : '.');
}

struct Effect {
  std::string name;
  KeptCall kept;
  Compute compute;
  Followed followed;
};

void run_effect(void* data) {
  auto& effect = *static_cast<Effect*>(data);
  const PlainDispatch plain;
  try {
    Stack arguments = effect.kept.arguments;
    if (effect.compute(&arguments, effect.kept.results))
      effect.followed.follow(effect.kept.arguments, effect.kept.results);
    else
      functions()->assertion(("operator " + effect.name + " could not be computed").c_str());
  } catch (const c10::Error& error) {
    functions()->assertion(("operator " + effect.name + ": " + error.what_without_backtrace()).c_str());
  } catch (const std::exception& error) {
    functions()->assertion(("operator " + effect.name + ": " + error.what()).c_str());
  }
}

}  // namespace

PlainDispatch::PlainDispatch() : before_(c10::impl::tls_local_dispatch_key_set()), guard_(&silent_) {
  c10::impl::LocalDispatchKeySet plain = before_;
  plain.included_ = c10::default_included_set;
  plain.excluded_ =
      c10::default_excluded_set | c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset;
  c10::impl::_force_tls_local_dispatch_key_set(plain);
}

PlainDispatch::~PlainDispatch() {
  c10::impl::_force_tls_local_dispatch_key_set(before_);
}

std::optional<KeptCall> keep(const c10::FunctionSchema& schema, at::ArrayRef<IValue> arguments,
                             at::ArrayRef<IValue> results, HostTensors host) {
  KeptCall kept{Stack(arguments.begin(), arguments.end()), Stack(results.begin(), results.end())};
  for (size_t i = 0; i < arguments.size(); ++i) {
    const c10::AliasInfo* const info = schema.arguments()[i].alias_info();
    if (!keep(&kept.arguments[i], info && info->isWrite(), host)) return std::nullopt;
  }
  for (IValue& each : kept.results)
    if (!keep(&each, true, host)) return std::nullopt;
  return kept;
}

bool is_computable(const std::string& name, const KeptCall& kept, const Compute& compute) {
  static std::mutex mutex;
  static auto* const known = new std::unordered_map<std::string, bool>;
  std::string key = name + ":";
  for (const IValue& each : kept.arguments) describe(each, &key);
  for (const IValue& each : kept.results) describe(each, &key);
  {
    const std::lock_guard lock(mutex);
    if (const auto at = known->find(key); at != known->end()) return at->second;
  }
  bool good = false;
  try {
    KeptCall zeros = kept;
    for (IValue& each : zeros.arguments) fill_with_zeros(&each);
    for (IValue& each : zeros.results) fill_with_zeros(&each);
    good = compute(&zeros.arguments, zeros.results);
  } catch (const std::exception&) {
    // python/ finds out how.
  }
  const std::lock_guard lock(mutex);
  (*known)[key] = good;
  return good;
}

bool compute_later(RealKernel* real, const c10::FunctionSchema& schema, const std::string& name,
                   at::ArrayRef<IValue> arguments, at::ArrayRef<IValue> results, const Compute& compute) {
  for (const IValue& each : results)
    if (!each.isTensor()) return false;
  std::optional<KeptCall> kept = keep(schema, arguments, results, HostTensors::kCopied);
  if (!kept || !is_computable(name, *kept, compute)) return false;
  auto effect = std::make_unique<Effect>(Effect{name, *std::move(kept), compute, Followed(schema, arguments)});
  const bool later = real->end(
      run_effect, [](void* data) { delete static_cast<Effect*>(data); }, effect.get());
  if (later) effect.release();
  return later;
}

}  // namespace devtrace::simulate::values
