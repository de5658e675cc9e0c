// CUDA refused a launch: its stream was made on another device than the one that is current.
#include <algorithm>

#include "common/format.h"
#include "common/text.h"
#include "report/phrasing/cpp_launch.h"
#include "report/phrasing/cpp_source.h"
#include "report/verdict/cpp/line.h"
#include "report/verdict/rules.h"

namespace devtrace::report::verdict::rules {
namespace {

std::string chosen(const Evidence& evidence) {
  if (evidence.choice.by_default) return " by default, for this thread never chose a device";
  const Frame* frame = innermost_own(evidence.choice.native);
  const std::string where = at(frame ? frame : innermost_own(evidence.choice.stack));
  return where.empty() ? "" : fmt::format(", since {}", where);
}

// A function that launches on streams of several devices must not be given one device's number.
std::optional<Fix> device_of_stream(const Frame& line, const Operand& stream) {
  const std::string ordinal(stream.device.substr(stream.device.find(':') + 1));
  return is_plain_expression(stream.name) ? device_of_stream_before(line, stream.name)
                                          : set_device_before(line, ordinal);
}

// The line with the current device's own stream.
std::optional<Fix> default_stream(const Evidence& evidence, const Frame& line, const Operand& stream) {
  const std::string_view kernel = std::string_view(evidence.operation).substr(0, evidence.operation.find('<'));
  const std::string_view written = stream_of_launch(line.source, kernel.substr(kernel.rfind(':') + 1));
  if (written.empty() || written != stream.name) return std::nullopt;
  const auto at = static_cast<size_t>(written.data() - line.source.data());
  const std::string code = fmt::format("{}0{}", line.source.substr(0, at), line.source.substr(at + written.size()));
  return line_fix(line, dedented(code));
}

}  // namespace

std::optional<Cause> stream_elsewhere(const Evidence& evidence) {
  if (evidence.kind != "wrong-current-device" || evidence.argument != "stream") return std::nullopt;
  const auto stream = std::find_if(evidence.operands.begin(), evidence.operands.end(),
                                   [](const Operand& it) { return it.role == "stream"; });
  if (stream == evidence.operands.end()) return std::nullopt;
  const bool has_memory = evidence.operands.size() > 1;
  const bool all_here = std::all_of(evidence.operands.begin(), evidence.operands.end(), [&](const Operand& it) {
    return &it == &*stream || it.device == evidence.current_device;
  });
  const Frame* line = evidence.in_cpp() ? innermost_own(evidence.native) : nullptr;
  const std::string made = at(innermost_own(stream->created.native));
  const std::string belongs = fmt::format(
      "{} is a stream of {}{}, and {} is current{}: CUDA launches a kernel on a stream of the current "
      "device only.",
      stream->name, stream->device, made.empty() ? "" : fmt::format(", made at {}", made), evidence.current_device,
      chosen(evidence));
  if (has_memory && all_here) {
    Cause cause{"stream-of-another-device", Confidence::high,
                fmt::format("{} Everything the kernel works on is on {}, so it needs a stream of that device: the "
                            "default one, or one that was made while that device was current.",
                            belongs, evidence.current_device),
                std::nullopt};
    if (line) cause.fix = default_stream(evidence, *line, *stream);
    return cause;
  }
  Cause cause{"missing-set-device", Confidence::high,
              fmt::format("{} Nothing makes {} current before the launch.", belongs, stream->device), std::nullopt};
  if (line) cause.fix = repairing(device_of_stream(*line, *stream));
  return cause;
}

}  // namespace devtrace::report::verdict::rules
