#include "tracker/findings/cpp_operands.h"

#include <algorithm>
#include <map>

#include "report/base/cpp_source.h"
#include "report/base/format.h"
#include "report/base/phrasing.h"
#include "report/base/signature.h"
#include "tracker/evidence/operator_arguments.h"

namespace devtrace::findings {
namespace {

using namespace log::record_fields;
using evidence::OperatorArgument;
using evidence::OperatorCall;

// The elements of `{a, b}` and torch::stack({a, b}).
std::string element_of(const std::string& text, int element) {
  const size_t open = text.find('{');
  if (open == text.npos || !text.ends_with('}')) return fmt::format("{}[{}]", text, element);
  const auto all = report::split_arguments(std::string_view(text).substr(open + 1, text.size() - open - 2));
  return static_cast<size_t>(element) < all.size() ? std::string(all[static_cast<size_t>(element)]) : std::string();
}

// What the user's line calls the tensors that it gives to an operator, by their TensorImpl: that operator may have
// asked another one, which refused.
std::map<uintptr_t, std::string> names(const std::vector<OperatorCall>& calls, const Json& frames) {
  std::map<uintptr_t, std::string> found;
  const std::string_view statement = report::string(report::native_user_frame(frames), "source");
  for (auto call = calls.rbegin(); call != calls.rend() && !statement.empty(); ++call) {
    const auto written = report::operator_arguments(statement, call->operation);
    if (!written) continue;
    for (const OperatorArgument& each : call->tensors) {
      if (each.position >= written->size()) continue;
      const std::string text((*written)[each.position]);
      std::string name = each.element < 0 ? text : element_of(text, each.element);
      if (!name.empty() && name.size() <= 120) found.emplace(each.identity, std::move(name));
    }
    break;
  }
  return found;
}

bool is_plain(std::string_view name) {
  return std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) || c == '_'; });
}

Json operand_json(const OperatorArgument& argument, const std::string& name, const SourceText& source) {
  Json record;
  const std::string position =
      argument.element < 0 ? argument.name : fmt::format("{}[{}]", argument.name, argument.element);
  add(record, "name", name.empty() ? position : name);
  record["role"] = is_plain(name) || name.empty() ? "argument" : "temporary";
  record["argument"] = position;
  record["position"] = argument.position;
  record["odd"] = false;
  record["device"] = argument.device;
  add(record, "dtype", argument.tensor.dtype);
  record["shape"] = argument.tensor.shape;
  record["bytes"] = argument.tensor.bytes;
  record["address"] = fmt::format("{:#x}", argument.tensor.address);
  add_provenance(record, argument.tensor.address, "", source);
  return record;
}

}  // namespace

std::optional<CppOperands> cpp_operands(const events::Refused& refusal, const Native& native, const Json& frames,
                                        const SourceText& source) {
  const std::vector<OperatorCall> calls = evidence::operator_calls(native.frames);
  if (calls.empty()) return std::nullopt;
  const OperatorCall& refused = calls.front();
  CppOperands found;
  found.operation = refused.operation;
  found.overload = refused.overload;
  const auto called = names(calls, frames);
  for (const OperatorArgument& argument : refused.tensors) {
    const auto name = called.find(argument.identity);
    const bool odd =
        refusal.odd_data != nullptr && argument.tensor.address == reinterpret_cast<uintptr_t>(refusal.odd_data);
    found.operands.push_back(operand_json(argument, name == called.end() ? "" : name->second, source));
    found.facts.push_back({argument.device, odd});
  }
  return found;
}

}  // namespace devtrace::findings
