#include "report/tables/columns.h"

#include <vector>

namespace devtrace::report::tables {
namespace {

constexpr std::string_view kNames[] = {"findings", "traffic", "processes", "memory", "outgrown", "operands"};
constexpr size_t kCount = std::size(kNames);

using Columns = std::array<std::vector<Column>, kCount>;

const Columns& all_columns() {
  static const Columns all = [] {
    Columns by_table;
#define COLUMN(table, name, type, from, path, sentence) \
  by_table[static_cast<size_t>(Table::table)].push_back({#name, #type, From::from, path});
#include "report/tables/columns.inc"
#undef COLUMN
    return by_table;
  }();
  return all;
}

}  // namespace

std::string_view name_of(Table table) {
  return kNames[static_cast<size_t>(table)];
}

std::span<const Column> columns_of(Table table) {
  return all_columns()[static_cast<size_t>(table)];
}

Json schema() {
  Json all = Json::object();
  for (size_t table = 0; table < kCount; ++table)
    for (const Column& column : all_columns()[table])
      all[std::string(kNames[table])].push_back({std::string(column.name), std::string(column.type)});
  return all;
}

}  // namespace devtrace::report::tables
