#include "simulate/values/torch/captured.h"

#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

namespace devtrace::simulate::values::captured {
namespace {

struct CapturedCall {
  KeptCall kept;
  Compute compute;
};

struct Calls {
  std::mutex mutex;
  long last = 0;
  std::unordered_map<long, std::shared_ptr<const CapturedCall>> by_number;
};
Calls& calls() {
  static auto* const one = new Calls;
  return *one;
}

std::shared_ptr<const CapturedCall> call_of(long number) {
  Calls& all = calls();
  const std::lock_guard lock(all.mutex);
  const auto at = all.by_number.find(number);
  return at == all.by_number.end() ? nullptr : at->second;
}

}  // namespace

long add(const c10::FunctionSchema& schema, const std::string& name, at::ArrayRef<c10::IValue> arguments,
         at::ArrayRef<c10::IValue> results, Compute compute, bool is_tried) {
  std::optional<KeptCall> kept = keep(schema, arguments, results, HostTensors::kShared);
  if (!kept || (is_tried && !is_computable(name, *kept, compute))) return 0;
  auto call = std::make_shared<const CapturedCall>(CapturedCall{*std::move(kept), std::move(compute)});
  Calls& all = calls();
  const std::lock_guard lock(all.mutex);
  all.by_number.emplace(++all.last, std::move(call));
  return all.last;
}

bool replay(long number) {
  const std::shared_ptr<const CapturedCall> call = call_of(number);
  if (!call) return false;
  const PlainDispatch plain;
  try {
    torch::jit::Stack arguments = call->kept.arguments;
    return call->compute(&arguments, call->kept.results);
  } catch (const std::exception&) {
    return false;
  }
}

void forget(long number) {
  Calls& all = calls();
  const std::lock_guard lock(all.mutex);
  all.by_number.erase(number);
}

}  // namespace devtrace::simulate::values::captured
