// Records as those may see them for whom they are: completed, and redacted where they leave the house.
#pragma once

#include <map>
#include <string>

#include "report/log/redact.h"
#include "report/record/json_access.h"

namespace devtrace::cli {

// Of one log after the other. The same name becomes the same name in all logs.
class Shown {
 public:
  explicit Shown(bool redacted, unsigned tokens = 0) : redacted_(redacted), tokens_(tokens) {}

  report::Json operator()(report::Json&& record);
  void begin_log() { process_ = report::Json(); }
  // The latest, with what earlier ones of the same log said.
  report::Json process();

 private:
  report::Json with_machine(report::Json process);
  report::Json with_tokens(report::Json process) const;

  bool redacted_;
  unsigned tokens_;
  report::Redactor redactor_;
  report::Json process_;
  std::map<std::string, size_t> machines_;
};

}  // namespace devtrace::cli
