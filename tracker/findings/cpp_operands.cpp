#include "tracker/findings/cpp_operands.h"

#include <algorithm>
#include <map>

#include "common/format.h"
#include "report/phrasing/cpp_source.h"
#include "report/phrasing/signature.h"
#include "tracker/evidence/operator_arguments.h"
#include "tracker/evidence/origins/origins.h"

namespace devtrace::findings {
namespace {

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
std::map<uintptr_t, std::string> names(const std::vector<OperatorCall>& calls, const finding::Stack& shown) {
  std::map<uintptr_t, std::string> found;
  const finding::Frame* const frame = finding::native_user_frame(shown);
  const std::string_view statement = frame ? std::string_view(frame->source) : std::string_view();
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

finding::Operand operand_of(const OperatorArgument& argument, const std::string& name,
                            const evidence::SourceText& source) {
  finding::Operand operand;
  operand.argument = argument.element < 0 ? argument.name : fmt::format("{}[{}]", argument.name, argument.element);
  operand.name = name.empty() ? operand.argument : name;
  operand.role = is_plain(name) || name.empty() ? "argument" : "temporary";
  operand.position = argument.position;
  operand.device = argument.device;
  if (!argument.tensor.dtype.empty()) operand.dtype = argument.tensor.dtype;
  operand.shape = finding::List<int64_t>::all(argument.tensor.shape);
  operand.bytes = argument.tensor.bytes;
  operand.address = fmt::format("{:#x}", argument.tensor.address);
  add_provenance(operand, operand.device, argument.tensor.address, source);
  return operand;
}

}  // namespace

std::optional<CppOperands> cpp_operands(uintptr_t mismatched, const std::vector<stacks::NativeFrame>& native,
                                        const finding::Stack& shown, const evidence::SourceText& source) {
  const std::vector<OperatorCall> calls = evidence::operator_calls(native);
  if (calls.empty()) return std::nullopt;
  const OperatorCall& refused = calls.front();
  CppOperands found;
  found.operation = refused.operation;
  found.overload = refused.overload;
  const auto called = names(calls, shown);
  for (const OperatorArgument& argument : refused.tensors) {
    const auto name = called.find(argument.identity);
    finding::Operand& operand =
        found.operands.emplace_back(operand_of(argument, name == called.end() ? std::string() : name->second, source));
    operand.mismatched = mismatched != 0 && argument.tensor.address == mismatched;
  }
  return found;
}

}  // namespace devtrace::findings
