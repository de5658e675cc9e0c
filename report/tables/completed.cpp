#include "report/tables/completed.h"

#include "finding/json.h"
#include "report/log/fingerprint.h"
#include "report/record/json_access.h"
#include "report/verdict/verdict.h"

namespace devtrace::report {

Json completed(const Json& process, Json finding) {
  if (string(finding, "fingerprint").empty())
    finding["fingerprint"] = fingerprint(string(process, "cwd"), finding::read(finding));
  if (object(finding, "cause").empty()) finding["cause"] = finding::to_json(verdict::cause_of(finding::read(finding)));
  return finding;
}

}  // namespace devtrace::report
