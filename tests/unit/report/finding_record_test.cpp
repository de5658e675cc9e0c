#include <gtest/gtest.h>

#include "finding/json.h"
#include "tests/unit/report/data.h"

namespace devtrace::finding {
namespace {

using report::Json;

// Without the order of fields, which others have written differently, and what says that something is not so.
nlohmann::json without_negations(const nlohmann::json& value) {
  if (!value.is_structured()) return value;
  nlohmann::json out = value.is_array() ? nlohmann::json::array() : nlohmann::json::object();
  for (const auto& [key, each] : value.items()) {
    if (value.is_array())
      out.push_back(without_negations(each));
    else if (each != false && each != "")
      out[key] = without_negations(each);
  }
  return out;
}

nlohmann::json fields(const Json& record) {
  nlohmann::json out = without_negations(nlohmann::json::parse(record.dump()));
  out["record"] = "finding";
  return out;
}

TEST(FindingRecord, ComesOutAsItWentIn) {
  for (const auto& judged : report::test::judged_findings())
    EXPECT_EQ(fields(to_json(read(judged.finding))), fields(judged.finding)) << judged.name;
  for (const char* name : {"private_gpt.jsonl", "petals.jsonl"}) {
    const Json record = report::test::sample(name).finding;
    EXPECT_EQ(fields(to_json(read(record))), fields(record)) << name;
  }
}

TEST(FindingRecord, AWrongTypeCountsAsAbsentAndAnUnknownFieldStays) {
  const Finding finding = read(Json::parse(
      R"({"record":"finding","kind":"refused-op","message":5,"devices":["cpu",7],"operands":[1,{"device":[]}],
          "python":[null,{"line":"12"}],"handles":"yes","later":{"a":[1]}})"));
  EXPECT_EQ(finding.message, "");
  EXPECT_EQ(finding.devices, (std::vector<std::string>{"cpu"}));
  EXPECT_EQ(finding.operands.size(), 1u);
  EXPECT_EQ(finding.stack.size(), 2u);  // names are told by a frame's number
  EXPECT_FALSE(finding.of<Refusal>().handles);
  EXPECT_EQ(to_json(finding)["later"], Json::parse(R"({"a":[1]})"));
}

TEST(FindingRecord, AFrameKeepsWhereItsStatementBegins) {
  const Json record = Json::parse(
      R"({"record":"finding","kind":"refused-op",
          "python":[{"file":"a.py","line":14,"function":"f","source":"x = f(\n y).z","source_line":13}]})");
  EXPECT_EQ(read(record).stack.at(0).source_line, 13);
  EXPECT_EQ(fields(to_json(read(record))), fields(record));
}

TEST(FindingRecord, FieldsStandInTheOrderOfTheirKind) {
  Finding finding;
  finding.kind = "copy-mismatch";
  finding.facts = Copy{};
  std::get<Copy>(finding.facts).copy.function = "cudaMemcpy";
  finding.stack.known = true;
  Operand& operand = finding.operands.emplace_back();
  operand.name = "x", operand.device = "cpu", operand.mismatched = true;
  EXPECT_EQ(
      to_json(finding).dump(),
      R"({"record":"finding","kind":"copy-mismatch","python":[],"operands":[{"name":"x","device":"cpu","odd":true}],)"
      R"("copy":{"function":"cudaMemcpy"}})");
}

}  // namespace
}  // namespace devtrace::finding
