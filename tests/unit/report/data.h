// The sample logs of tests/data, found from the repository's root, where the tests are run.
#pragma once

#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "report/report.h"

namespace devtrace::report::test {

inline std::string file(const std::string& name) {
  std::ifstream in("tests/data/" + name, std::ios::binary);
  if (!in) throw std::runtime_error("tests/data/" + name + " is missing: run the tests from the repository's root");
  std::ostringstream all;
  all << in.rdbuf();
  return all.str();
}

struct Sample {
  Json process, finding;
};

inline Sample sample(const std::string& name) {
  std::istringstream lines(file(name));
  std::string process, finding;
  std::getline(lines, process);
  std::getline(lines, finding);
  return {Json::parse(process), Json::parse(finding)};
}

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

}  // namespace devtrace::report::test
