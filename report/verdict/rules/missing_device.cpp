// A device by its number, and there are fewer.
#include "report/base/format.h"
#include "report/base/phrasing.h"
#include "report/verdict/rules.h"
#include "report/verdict/source_line.h"

namespace devtrace::report::verdict::rules {

std::optional<Cause> missing_device(const Evidence& evidence) {
  if (!evidence.device_count || evidence.devices.empty()) return std::nullopt;
  const int64_t count = *evidence.device_count;
  const std::string device(evidence.devices[0]);
  const std::string those = count == 1 ? "cuda:0" : fmt::format("cuda:0 to cuda:{}", count - 1);
  Cause cause{
      "missing-device", Confidence::high,
      count == 0
          ? fmt::format("{} is asked for, and this process sees no CUDA device: see CUDA_VISIBLE_DEVICES.", device)
          : fmt::format("{} is asked for, and this process sees {}: they are counted from 0, among "
                        "those that CUDA_VISIBLE_DEVICES names.",
                        device, those),
      std::nullopt};
  for (const Frame& frame : evidence.stack) {
    if (!frame.project) continue;
    const std::string written = fmt::format("\"{}\"", device);
    auto code = count > 0 ? replace_expression(frame.source, written, fmt::format("\"cuda:{}\"", count - 1))
                          : std::optional<std::string>();
    if (code) cause.fix = Fix{std::move(*code), std::string(frame.file), frame.line, Repairs::line};
    break;
  }
  return cause;
}

}  // namespace devtrace::report::verdict::rules
