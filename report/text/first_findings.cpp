#include "report/text/first_findings.h"

#include <functional>

#include "common/format.h"

namespace devtrace::report {
namespace {

constexpr size_t kMostOthers = 2'000'000;  // hashes that are kept

}  // namespace

void FirstFindings::leave_out(std::string_view fingerprint) {
  ++left_out_;
  if (others_.size() < kMostOthers && !fingerprints_.contains(fingerprint))
    others_.insert(std::hash<std::string_view>()(fingerprint));
}

std::string FirstFindings::left_out() const {
  if (left_out_ == 0) return {};
  return fmt::format(
      "{} more finding{} not shown, with {}{} other fingerprint{}: this is the beginning of a long log. All of it: "
      "devtrace report --format json; each fault once: devtrace check --junit.",
      left_out_, left_out_ == 1 ? " is" : "s are", others_.size() < kMostOthers ? "" : "more than ", others_.size(),
      others_.size() == 1 ? "" : "s");
}

}  // namespace devtrace::report
