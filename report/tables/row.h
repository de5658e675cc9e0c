// One row of a table, as JSON for Arrow's reader: each value of its column's type, or absent.
#pragma once

#include <string>
#include <string_view>

#include "report/record/raw_fields.h"
#include "report/tables/columns.h"

namespace devtrace::report::tables {

// Appends the value in that column type's form; false, with nothing appended, where it is none: Arrow's reader takes a
// wrong one for the end of everything. `raw` is cut out of a line that somebody may have written by hand.
bool append_value(std::string& out, std::string_view raw, std::string_view type);

class Row {
 public:
  void add(std::string_view name, std::string_view raw, std::string_view type);
  // What add() of other rows has made.
  void add_made(std::string_view fields);
  // The fields with commas between them, without braces. Well-formed UTF-8.
  const std::string& fields() const { return fields_; }

 private:
  std::string fields_;
};

// The text at that path below an object's text; empty where it leads nowhere.
std::string_view raw_at(const RawFields& record, std::string_view path);

// The innermost frame of the user's own of a record: its fields.
RawFields frame_of(const RawFields& record, std::string& made);

}  // namespace devtrace::report::tables
