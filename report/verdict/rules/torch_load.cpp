// A checkpoint says on which devices its tensors lay, and torch.load puts them there again: also where there are fewer.
#include "report/base/format.h"
#include "report/verdict/rules.h"
#include "report/verdict/source_line.h"

namespace devtrace::report::verdict::rules {

std::optional<Cause> torch_load(const Evidence& evidence) {
  if (evidence.operation != "torch.load" || !evidence.message.starts_with("Attempting to deserialize object on "))
    return std::nullopt;
  constexpr std::string_view kDevice = "CUDA device ";
  const size_t at = evidence.message.find(kDevice);
  const std::string_view rest = at == evidence.message.npos ? "" : evidence.message.substr(at + kDevice.size());
  const std::string_view index = rest.substr(0, rest.find(' '));
  const std::string device = index.empty() ? "a CUDA device" : fmt::format("cuda:{}", index);
  Cause cause{"checkpoint-device", Confidence::high,
              fmt::format("The file was saved with tensors on {}, and this process has no such device: without "
                          "map_location torch.load puts each tensor where it was.",
                          device),
              std::nullopt};
  for (const Frame& frame : evidence.stack) {
    if (!frame.project) continue;
    if (auto code = give_argument(frame.source, "torch.load", "map_location", "\"cpu\""))
      cause.fix = Fix{std::move(*code), std::string(frame.file), frame.line, Repairs::cause};
    break;
  }
  return cause;
}

}  // namespace devtrace::report::verdict::rules
