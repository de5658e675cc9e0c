#include "cli/records/shown.h"

#include <utility>

#include "common/format.h"
#include "report/tables/completed.h"
#include "report/traffic/traffic.h"

namespace devtrace::cli {

using report::Json;

Json Shown::operator()(Json&& record) {
  const auto kind = report::string(record, "record");
  if (kind == "process" || process_.is_null()) {
    if (report::integer(process_, "pid") != report::integer(record, "pid")) process_ = Json();
    process_.update(record);
    return with_tokens(redacted_ ? with_machine(redactor_.process(process_)) : std::move(record));
  }
  // The verdict is found on what was really there.
  if (kind == "finding") record = report::completed(process_, std::move(record));
  if (kind == "traffic" && tokens_ > 0)
    record["a_token"] = report::while_working(record) ? report::integer(record, "bytes").value_or(0) / tokens_ : 0;
  return redacted_ ? redactor_.record(record) : std::move(record);
}

Json Shown::process() {
  return with_tokens(redacted_ ? with_machine(redactor_.process(process_)) : process_);
}

// Which processes ran on one machine may be told, its name not.
Json Shown::with_machine(Json process) {
  const auto boot = report::string(process_, "boot"), host = report::string(process_, "host");
  const auto known = machines_.try_emplace(std::string(boot.empty() ? host : boot), machines_.size() + 1).first;
  process["host"] = fmt::format("machine{}", known->second);
  return process;
}

Json Shown::with_tokens(Json process) const {
  if (tokens_ > 0) process["tokens"] = tokens_;
  return process;
}

}  // namespace devtrace::cli
