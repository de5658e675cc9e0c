// The tables that logs become, and their columns: columns.inc.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "report/record/json.h"

namespace devtrace::report::tables {

// `operands`: no table of its own, but the type of a column's elements.
enum class Table { findings, traffic, processes, memory, outgrown, operands };
constexpr std::array kTables = {Table::findings, Table::traffic, Table::processes, Table::memory, Table::outgrown};
enum class From { log, process, end, environment, record, place, present, counted };

struct Column {
  std::string_view name, type;
  From from;
  std::string_view path;  // fields, with dots between; alternatives with bars
};

std::string_view name_of(Table table);
std::span<const Column> columns_of(Table table);

// {"findings":[["log","string"],…],…}: for who writes the rows.
Json schema();

}  // namespace devtrace::report::tables
