// Records without what tells whose program it was: for reports that leave the house.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>

#include "report/record/json_access.h"

namespace devtrace::report {

// One log's records, one after the other; the same name becomes the same name in all of them. What stays: devices,
// shapes, versions, times, PyTorch's operations and messages, and the code of Python's own library and of well-known
// packages (redact_public.inc). Files, functions, classes, variables and strings of everything else are replaced. The
// lines around a line, comments, the host, the command and the environment's words are left out, and so is every field
// that docs/reference/log.md does not know.
class Redactor {
 public:
  // The first record, or a later `process`.
  Json process(const Json& record);
  // Any other record.
  Json record(const Json& record);

 private:
  Json frames(const Json& python);
  Json native(const Json& frames);
  Json operand(const Json& operand);
  Json event(const Json& event);
  void learn_names(const Json& record);
  Json cause(const Json& cause);
  void learn(const Json& record);

  std::string file(std::string_view raw);
  std::string name(std::string_view raw);
  std::string code(std::string_view raw);
  std::string kernel(std::string_view raw);
  std::string prose(std::string_view raw) const;

  std::string cwd_;
  std::map<std::string, std::string, std::less<>> files_, names_;
  std::set<std::string, std::less<>> public_;  // names that code of well-known packages uses
};

}  // namespace devtrace::report
