// A baseline of `devtrace check`, held against a night without logs, and written anew.
#include "report/check/baseline.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

#include "report/check/comparison.h"
#include "report/check/outputs.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace devtrace::report;
  using namespace devtrace::report::check;
  const int file = ::memfd_create("baseline", 0);
  const bool written = ::write(file, data, size) == static_cast<ssize_t>(size);
  try {
    const Baseline baseline = read_baseline(written ? "/proc/self/fd/" + std::to_string(file) : "");
    const Suppressions none;
    Repository repository("/");
    const Collection logs(repository, {none, "2026-01-01"});
    const Comparison judged = compare(logs, baseline, none, "2026-01-01", {.traffic_tolerance = 0.2});
    const Result result{logs, judged, "/"};
    check_text(result, false);
    junit(result);
    sarif(result);
    github(result);
    check_markdown(result);
    updated(baseline, logs, {}, false);
  } catch (const BaselineError&) {
  }
  ::close(file);
  return 0;
}
