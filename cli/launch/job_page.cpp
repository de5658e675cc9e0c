#include "cli/launch/job_page.h"

#include <algorithm>
#include <exception>
#include <filesystem>
#include <vector>

#include "cli/output.h"
#include "common/format.h"
#include "common/text.h"
#include "report/check/outputs.h"

namespace devtrace::cli {
namespace {

namespace fs = std::filesystem;

void write_page(const std::vector<fs::path>& logs, bool said) {
  report::check::Repository repository("");
  const report::Suppressions none;
  report::check::Collection all(repository, {none, ""}, {});
  for (const fs::path& log : logs) all.read(log);
  if (all.faults().empty()) return;
  const report::check::Comparison judged = report::check::compare(all, {}, none, "", {});
  const fs::path file = logs.front().parent_path() / fmt::format("devtrace-job-{}.html", ::getpid());
  Output page(file.string());
  report::check::check_html({all, judged, repository.root().string(), false},
                            [&](std::string_view text) { page.write(text); });
  page.finish();
  if (said) fmt::print(stderr, "devtrace: report of {} ranks: {}\n", logs.size(), printable(file.string()));
}

}  // namespace

void write_job_page(const RankTable& ranks) {
  std::vector<fs::path> logs;
  bool said = false;
  for (const RankTable::Log& each : ranks.log) {
    std::error_code error;
    if (!each.ready.load() || !fs::exists(each.path, error)) continue;
    logs.emplace_back(each.path);
    said = said || each.said;
  }
  std::ranges::sort(logs);
  if (logs.size() < 2) return;
  try {
    write_page(logs, said);
  } catch (const std::exception& error) {
    fmt::print(stderr, "devtrace: no report of all ranks: {}\n", printable(error.what()));
  }
}

}  // namespace devtrace::cli
