// A `__constant__` or `__device__` variable lies once on each device, and was set on one alone.
#include <algorithm>

#include "common/format.h"
#include "report/phrasing/cpp_source.h"
#include "report/verdict/cpp/device.h"
#include "report/verdict/cpp/line.h"
#include "report/verdict/rules.h"
#include "report/verdict/source/source_line.h"

namespace devtrace::report::verdict::rules {
namespace {

// The statement that set it, said again in front of the launch, by the innermost function that did both: what it names
// counts there.
std::optional<Fix> set_here_too(const Stack& set, const Stack& launch) {
  for (const Frame& line : launch) {
    if (!line.project) continue;
    const auto there = std::ranges::find_if(set, [&](const Frame& each) { return each.same_function(line); });
    if (there == set.end()) continue;
    const std::string_view statement = there->source;
    const size_t begin = statement.find_first_not_of(" \t\n");
    if (there->line == line.line || begin == statement.npos || !statement.ends_with(';')) return std::nullopt;
    return statement_before(line, std::string(statement.substr(begin)));
  }
  return std::nullopt;
}

// Where it is set for the device that is current: there for all of them.
std::optional<Fix> set_everywhere(const Stack& set) {
  constexpr std::string_view kSets = "cudaMemcpyToSymbol";
  const Frame* line = innermost_own(set);
  const auto call = line ? only_call(line->source, kSets) : std::nullopt;
  if (!call) return std::nullopt;
  const std::string devices = free_name(*line, "devices"), before = free_name(*line, "device_before"),
                    each = free_name(*line, "each_device");
  return around_statement(*line,
                          fmt::format("int {0} = 0, {1} = 0;\ncudaGetDeviceCount(&{0});\ncudaGetDevice(&{1});\n"
                                      "for (int {2} = 0; {2} < {0}; ++{2}) {{\ncudaSetDevice({2});\n",
                                      devices, before, each),
                          fmt::format("}}\ncudaSetDevice({});", before));
}

}  // namespace

std::optional<Cause> unset_variable(const Evidence& evidence) {
  if (evidence.kind != "unset-variable" || evidence.operands.empty()) return std::nullopt;
  const Operand& variable = evidence.operands.front();
  const std::string where = at(innermost_own(variable.created.native));
  auto fix = set_everywhere(variable.created.native);
  if (!fix) fix = set_here_too(variable.created.native, evidence.native);
  return Cause{"set-on-one-device", Confidence::high,
               fmt::format("Each device has a variable {0} of its own, and the program sets that of the device that is "
                           "current: it did so for {1}{2}, and never for {3}, where the kernel reads it.",
                           variable.name, variable.device, where.empty() ? "" : fmt::format(" ({})", where),
                           evidence.current_device),
               repairing(std::move(fix))};
}

}  // namespace devtrace::report::verdict::rules
