// A record's fields as they stand in its line: cut apart, none of them parsed. Ten times as fast as a tree of values,
// where a reader wants a few short fields out of long lines.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

namespace devtrace::report {

class RawFields {
 public:
  // Of a JSON object, whose text has to outlive this. False, and no fields, where quotes or brackets do not close, or
  // it is none. What stands inside of a value is not looked at: it may still be no JSON.
  bool cut(std::string_view object);

  // The value's text: `"cuda:0"` with its quotes, `[1,2]`. Empty where there is no such field.
  std::string_view operator[](std::string_view key) const;

  bool empty() const { return fields_.empty(); }

 private:
  std::vector<std::pair<std::string_view, std::string_view>> fields_;
};

// The texts of a JSON array's elements; none where it is no array, or does not close.
std::vector<std::string_view> raw_elements(std::string_view array);

}  // namespace devtrace::report
