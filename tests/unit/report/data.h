// The sample logs of tests/data, found from the repository's root, where the tests are run.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "report/record/json.h"

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

// A finding of tests/data/verdict and the verdict that it must get: two lines of a file.
struct JudgedFinding {
  std::string name;
  Json says, finding;  // says: case, about, expect

  friend void PrintTo(const JudgedFinding& judged, std::ostream* out) { *out << judged.name; }
};

// All of them, by name.
inline std::vector<JudgedFinding> judged_findings() {
  std::vector<JudgedFinding> all;
  for (const auto& entry : std::filesystem::directory_iterator("tests/data/verdict")) {
    std::ifstream in(entry.path());
    for (std::string says, finding; std::getline(in, says) && std::getline(in, finding);) {
      const Json parsed = Json::parse(says);
      all.push_back({parsed.at("case"), parsed, Json::parse(finding)});
    }
  }
  std::sort(all.begin(), all.end(), [](const auto& left, const auto& right) { return left.name < right.name; });
  return all;
}

}  // namespace devtrace::report::test
