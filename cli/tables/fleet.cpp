// devtrace fleet: a page of many nights, out of the tables that `devtrace report --format parquet` writes.
#include <memory>

#include "cli/launch/python_module.h"
#include "cli/subcommand.h"

namespace devtrace::cli {
namespace {

struct FleetOptions {
  std::string database, html;
};

}  // namespace

Action declare_fleet(CLI::App& app) {
  auto options = std::make_shared<FleetOptions>();
  set_usage(app, "DB --html FILE");
  app.add_option(
         "database", options->database,
         "the folder of tables (devtrace report LOGS --format parquet -o FOLDER), or a DuckDB database with the "
         "views of queries.sql")
      ->type_name("DB")
      ->required();
  app.add_option("--html", options->html, "the page: nights as columns, faults as rows; it opens without network")
      ->type_name("FILE")
      ->required();
  app.footer(
      "A cell says whether the fault was new that night, known, gone, or its program was not run. Each leads to the "
      "fault's place,\n"
      "cause, repair, versions and hosts, and to the reports of that night where they lie beside their logs.\n"
      "\n"
      "Needs Python with DuckDB and Bokeh: pip install 'devtrace[fleet]'.\n"
      "\n"
      "Exit status: 0 when the page was written; 2 when it could not be.");
  return [options](const AfterDashes&) {
    return PythonModule("fleet.page", {options->database, options->html}).finish() == 0 ? 0 : kBadUsage;
  };
}

}  // namespace devtrace::cli
