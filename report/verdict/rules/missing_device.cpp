// A device by its number, and there are fewer.
#include "common/format.h"
#include "report/verdict/rules.h"

namespace devtrace::report::verdict::rules {

std::optional<Cause> missing_device(const Evidence& evidence) {
  if (!evidence.refusal.device_count || evidence.devices.empty()) return std::nullopt;
  const int64_t count = *evidence.refusal.device_count;
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
  const auto frame = innermost_project(evidence.stack);
  if (!frame || count == 0) return cause;
  const Frame& here = evidence.stack[*frame];
  // RANK counts through all machines. Who calls LOCAL_RANK by a name may do so below this line.
  const finding::GroupSetup& setup = evidence.refusal.setup;
  if (setup.local_rank.starts_with("int(os.environ["))
    if (auto fix = set_device_by_rank(setup, here)) {
      cause.because += " A rank's number on its machine, which torchrun gives as LOCAL_RANK, begins with 0 on each.";
      cause.fix = std::move(fix);
      return cause;
    }
  const std::string last = fmt::format("cuda:{}", count - 1);
  for (const char quote : {'"', '\''}) {
    const std::string written = fmt::format("{0}{1}{0}", quote, device);
    const size_t at = here.source.find(written);
    if (at == here.source.npos || here.source.find(written, at + 1) != here.source.npos) continue;
    std::string code(here.source);
    code.replace(at + 1, device.size(), last);
    cause.fix = line_fix(here, std::move(code));
  }
  return cause;
}

}  // namespace devtrace::report::verdict::rules
