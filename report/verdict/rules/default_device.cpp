// `.cuda()` and "cuda" mean the current device, which is cuda:0 unless somebody set another.
#include "report/base/format.h"
#include "report/verdict/rules.h"
#include "report/verdict/source_line.h"

namespace devtrace::report::causes::rules {

std::optional<Cause> default_device(const Evidence& evidence) {
  const auto pair = evidence.pair(
      [](const Operand& it) {
        const Event* placed = it.placed();
        return !it.is_state() && placed && placed->line() && says_current_device(placed->line()->source);
      },
      [](const Operand& other) { return !other.on_cpu(); });
  if (!pair) return std::nullopt;
  const Frame& line = *pair.it->placed()->line();

  Cause cause{"default-or-current-device", Confidence::medium,
              fmt::format("{} was put on the device that was current at {}, which is not the one of {}.", pair.it->name,
                          at(&line), with_place(*pair.other)),
              move_where_named(evidence, *pair.it, *pair.other)};
  return cause;
}

}  // namespace devtrace::report::causes::rules
