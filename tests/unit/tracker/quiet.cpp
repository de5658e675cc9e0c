#include "tests/unit/tracker/quiet.h"

#include <cstdlib>
#include <fstream>

#include "tracker/log/log.h"

namespace devtrace::test {

bool quiet() {
  static const bool set = [] {
    char folder[] = "/tmp/devtrace-tests-XXXXXX";
    if (!::mkdtemp(folder)) return false;
    const std::string path = std::string(folder) + "/log.jsonl";
    return ::setenv("DEVTRACE_OPTIONS",
                    ("text=0:html=0:native=0:allocation_stacks=0:dedupe=0:max_findings=0:traffic_interval=0:log_path=" +
                     path)
                        .c_str(),
                    1) == 0;
  }();
  return set;
}

std::vector<report::Json> records() {
  std::vector<report::Json> all;
  std::ifstream log(log::path());
  for (std::string line; std::getline(log, line);) all.push_back(report::Json::parse(line));
  return all;
}

report::Json last_finding() {
  const auto all = records();
  for (size_t i = all.size(); i-- > 0;)
    if (all[i]["record"] == "finding") return all[i];
  return {};
}

}  // namespace devtrace::test
