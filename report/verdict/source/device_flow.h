// Where the values of a function's names lie, followed through its statements: what PyTorch would refuse next.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/verdict/source/flow_reader.h"

namespace devtrace::report::verdict {

class DeviceFlow : public FlowNames {
 public:
  explicit DeviceFlow(FlowNames known) : FlowNames(std::move(known)) {}

  // Follows one statement. Answers with it where something that it reads is to be moved, in front of nothing else.
  std::optional<std::string> run(std::string_view statement);
  // What a statement that has run returned; empty: it was no `return`.
  const std::optional<FlowValue>& result() const { return result_; }

 private:
  void assign(std::string_view targets, const FlowValue& value);
  void forget(std::string_view name);
  void store(std::string_view text, std::string_view target, const FlowValue& value,
             std::vector<FlowMove>& moves) const;

  std::optional<FlowValue> result_;
};

}  // namespace devtrace::report::verdict
