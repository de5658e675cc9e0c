#include "report/verdict/cpp/origin.h"

#include <algorithm>
#include <iterator>

#include "common/format.h"
#include "common/text.h"
#include "common/torch_functions.h"
#include "report/phrasing/cpp_source.h"
#include "report/verdict/cpp/line.h"

namespace devtrace::report::verdict {
namespace {

bool says_a_device(std::string_view argument) {
  for (const std::string_view word : {"kCUDA", "kCPU", "Device", "device", "\"cuda", "\"cpu"})
    if (argument.find(word) != argument.npos) return true;
  return false;
}

// What `.to(…)` is given may be a type, which moves nothing.
bool says_a_type(std::string_view argument) {
  return argument.find("::k") != argument.npos && !says_a_device(argument);
}

std::string replaced(std::string_view text, std::string_view part, const std::string& by) {
  std::string code(text);
  return code.replace(static_cast<size_t>(part.data() - text.data()), part.size(), by);
}

std::optional<std::string> moved_elsewhere(std::string_view source, const std::string& device) {
  if (const auto call = only_call(source, "to"); call && !call->receiver.empty() && !call->arguments.empty())
    return says_a_type(call->arguments[0]) ? std::nullopt : std::optional(replaced(source, call->arguments[0], device));
  for (const std::string_view method : {"cuda", "cpu"})
    if (const auto call = only_call(source, method); call && !call->receiver.empty() && call->arguments.empty()) {
      const std::string moved = fmt::format("{}.to({})", call->receiver, device);
      return replaced(source, source.substr(call->begin, call->end - call->begin), moved);
    }
  return std::nullopt;
}

std::optional<std::string> made_elsewhere(std::string_view source, const std::string& device) {
  std::optional<CppCall> made;
  for (const auto& function : torch_functions::kTable) {
    // Of these std has some by the same name: std::complex.
    if (!function.is(torch_functions::kMakes) || function.is(torch_functions::kJoins)) continue;
    auto call = only_call(source, function.name);
    if (!call || call->receiver.empty() == function.is(torch_functions::kMethod)) continue;
    if (made) return std::nullopt;
    made = std::move(call);
  }
  if (!made) return std::nullopt;
  for (const std::string_view argument : made->arguments)
    if (says_a_device(argument)) return std::nullopt;  // somebody wanted it there
  return std::string(source).insert(made->end, fmt::format(".to({})", device));
}

constexpr OwnerSaidBy kOwnerSaidBy[] = {
    {"cudaMallocFromPoolAsync", "its pool", "cudaMemPoolSetAccess"},
    {"cuMemAllocFromPoolAsync", "its pool", "cuMemPoolSetAccess"},
    {"cudaMallocAsync", "its stream", "cudaMemPoolSetAccess"},
    {"cuMemAllocAsync", "its stream", "cuMemPoolSetAccess"},
    {"cuMemMap", "what was mapped", "cuMemSetAccess"},
};

}  // namespace

const OwnerSaidBy* owner_said_by(std::string_view call) {
  const auto found = std::find_if(std::begin(kOwnerSaidBy), std::end(kOwnerSaidBy),
                                  [&](const OwnerSaidBy& each) { return each.call == call; });
  return found == std::end(kOwnerSaidBy) ? nullptr : found;
}

std::string cpp_device(std::string_view device) {
  if (device == "cpu") return "torch::kCPU";
  return fmt::format("torch::Device(torch::kCUDA, {})", device.substr(device.find(':') + 1));
}

std::optional<Fix> put_on(const Event& placed, bool moved, std::string_view device) {
  const Frame* line = innermost_own(placed.native);
  if (!line || line->source.empty()) return std::nullopt;
  const std::string target = cpp_device(device);
  const auto code = moved ? moved_elsewhere(line->source, target) : made_elsewhere(line->source, target);
  if (!code) return std::nullopt;
  return line_fix(*line, dedented(*code));
}

}  // namespace devtrace::report::verdict
