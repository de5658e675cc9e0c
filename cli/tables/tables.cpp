#include "cli/tables/tables.h"

#include <cstdio>
#include <filesystem>

#include "cli/launch/python_module.h"
#include "cli/subcommand.h"
#include "common/format.h"
#include "common/text.h"
#include "common/version.h"
#include "report/record/json_access.h"
#include "report/record/log_reader.h"
#include "report/tables/batches.h"

namespace devtrace::cli {
namespace {

namespace fs = std::filesystem;
namespace tables = report::tables;

constexpr size_t kBlock = 8u << 20;  // of one table's rows: a group of rows in its file

// Writes batches by devtrace.fleet.tables: a line of JSON says what comes, and the rows of one table follow it.
class TableWriter {
 public:
  explicit TableWriter(const std::string& folder) : module_("fleet.tables", {folder}) {
    head({{"schema", tables::schema()}, {"devtrace", kVersion}});
  }

  void begin(const tables::Batch& batch) { head({{"partition", batch.partition}, {"name", batch.name}}); }
  void add(const tables::LogRows& rows) {
    for (size_t table = 0; table < tables::kTables.size(); ++table) {
      waiting_.text[table] += rows.text[table];
      if (waiting_.text[table].size() >= kBlock) send(table);
    }
  }
  void end(const std::string& manifest) {
    for (size_t table = 0; table < tables::kTables.size(); ++table)
      if (!waiting_.text[table].empty()) send(table);
    head({{"manifest", manifest}});
  }
  int finish() { return module_.finish(); }

 private:
  void head(const report::Json& says) { module_.write(report::json_line(says)); }
  void send(size_t table) {
    std::string& text = waiting_.text[table];
    head({{"rows", std::string(tables::name_of(tables::kTables[table]))}, {"bytes", text.size()}});
    module_.write(text);
    text.clear();
  }

  PythonModule module_;
  tables::LogRows waiting_;
};

void complain(std::string_view what) {
  fmt::print(stderr, "devtrace report: {}\n", printable(what));
}

std::vector<tables::LogIdentity> identities(const std::vector<std::string>& logs, bool redact, bool& unreadable) {
  std::vector<tables::LogIdentity> all;
  const auto tried = [&](auto&& act) {
    try {
      act();
    } catch (const report::LogError& error) {
      complain(error.what());
      unreadable = true;
    }
  };
  for (const std::string& argument : logs)
    tried([&] {
      for (const fs::path& log : report::all_logs_at(argument))
        tried([&] { all.push_back(tables::identify(log, redact)); });
    });
  return all;
}

}  // namespace

int write_tables(const std::vector<std::string>& logs, const std::string& folder, bool redact) {
  if (folder.empty() || folder == "-")
    throw Failure(kBadUsage, "--format parquet writes a folder of tables: say which, -o FOLDER");
  bool unreadable = false;
  tables::Plan plan = tables::plan(identities(logs, redact, unreadable), folder);
  size_t written = 0;
  int code = 0;
  if (!plan.batches.empty()) {
    report::Redactor redactor;
    TableWriter writer(folder);
    try {
      for (tables::Batch& batch : plan.batches) {
        writer.begin(batch);
        std::erase_if(batch.logs, [&](const tables::LogIdentity& log) {
          std::vector<std::string> warnings;
          try {
            writer.add(tables::rows_of(log, redact ? &redactor : nullptr, warnings));
            for (const std::string& warning : warnings) complain(warning);
            return false;
          } catch (const report::LogError& error) {
            complain(error.what());
            return unreadable = true;
          }
        });
        writer.end(tables::manifest(batch, !redact));
        written += batch.logs.size();
      }
      code = writer.finish();
    } catch (const Failure&) {
      code = writer.finish();  // the module has said why
      if (code == 0) throw;
    }
  }
  if (code != 0) return kBadUsage;
  fmt::print(stderr, "devtrace report: {} log{} into {}, {} there already\n", written, written == 1 ? "" : "s",
             printable(folder), plan.known);
  return unreadable ? kBadUsage : 0;
}

}  // namespace devtrace::cli
