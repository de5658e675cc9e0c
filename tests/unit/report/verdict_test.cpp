// Every finding of tests/data/verdict gets the verdict that the line in front of it says. A wrong verdict somebody
// reports becomes a test by copying the finding's line of their log, below a line of what it should have been.
#include <gtest/gtest.h>

#include "finding/json.h"
#include "tests/unit/report/data.h"

namespace devtrace::report {
namespace {

Json verdict_of(const Json& record) {
  return finding::to_json(verdict::cause_of(finding::read(record)));
}

class Verdict : public testing::TestWithParam<test::JudgedFinding> {};

TEST_P(Verdict, IsAsExpected) {
  const auto& [name, says, finding] = GetParam();
  const Json cause = verdict_of(finding);
  const Json& expect = says.at("expect");
  for (const char* key : {"category", "confidence", "fix", "line", "repairs"}) {
    EXPECT_EQ(cause.value(key, Json()), expect.value(key, Json())) << key << "\n"
                                                                   << says.at("about") << "\n"
                                                                   << cause.dump(1);
  }
  if (expect.contains("because")) {
    EXPECT_EQ(cause.at("because"), expect.at("because"));
  }
  EXPECT_FALSE(cause.at("because").get<std::string>().empty());
}

INSTANTIATE_TEST_SUITE_P(Cases, Verdict, testing::ValuesIn(test::judged_findings()),
                         [](const auto& info) { return info.param.name; });

TEST(VerdictOfSamples, NamesTheLineToChange) {
  const Json gpt = verdict_of(test::sample("private_gpt.jsonl").finding);
  EXPECT_EQ(gpt.at("category"), "input-not-moved");
  EXPECT_EQ(gpt.at("confidence"), "high");
  EXPECT_EQ(gpt.at("fix"), "encoded = {key: value.to(self.model.device) for key, value in batch.items()}");
  EXPECT_EQ(gpt.at("line"), 40);
  const Json petals = verdict_of(test::sample("petals.jsonl").finding);
  EXPECT_EQ(petals.at("category"), "cached-state-elsewhere");
  EXPECT_EQ(petals.at("fix"), "key_states = torch.cat([past_key_value[0].to(key_states.device), key_states], dim=2)");
}

TEST(VerdictOfAnything, IsUnknownAndNeverFails) {
  for (const Json& odd :
       {Json(nullptr), Json(5), Json::object(),
        Json({{"operands", {1, nullptr, {{"device", 5}, {"names", {{{"frame", -1}, {"name", "x"}}}}}}},
              {"python", {nullptr}}})}) {
    EXPECT_EQ(verdict_of(odd).at("category"), "unknown") << odd;
  }
}

}  // namespace
}  // namespace devtrace::report
