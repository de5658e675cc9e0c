#include "cli/fix/progress.h"

#include <unistd.h>

#include <cstdio>

#include "common/format.h"
#include "common/text.h"

namespace devtrace::cli {

ProgressLine::ProgressLine() : terminal_(isatty(STDERR_FILENO)) {
  if (terminal_) fmt::print(stderr, "rehearsing the program as it is …");
}

void ProgressLine::show(const fix::Progress& progress) {
  if (terminal_) {
    const std::string last = progress.last ? fmt::format("; {}: {}", progress.last->candidate.title,
                                                         fix::word(progress.last->judgement.result))
                                           : "";
    fmt::print(
        stderr, "\r\033[K{}",
        printable(fmt::format("finding {}, {}: tried {} of up to {}, {:.0f} s{}", progress.number,
                              progress.round->finding.place(), progress.done, progress.all, progress.seconds, last))
            .substr(0, 110));
    std::fflush(stderr);
  } else if (progress.last) {
    fmt::print(stderr, "devtrace fix: finding {}, try {} of up to {}: {}: {} ({})\n", progress.number, progress.done,
               progress.all, printable(progress.last->candidate.title), fix::word(progress.last->judgement.result),
               printable(progress.last->judgement.why));
  }
}

void ProgressLine::clear() {
  if (terminal_) fmt::print(stderr, "\r\033[K");
}

}  // namespace devtrace::cli
