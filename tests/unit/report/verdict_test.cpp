// Every file of tests/data/verdict is a finding and the verdict it must get. A wrong verdict somebody reports becomes a
// test by adding one.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/unit/report/data.h"

namespace devtrace::report {
namespace {

std::vector<std::string> cases() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("tests/data/verdict"))
    names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

class Verdict : public testing::TestWithParam<std::string> {};

TEST_P(Verdict, IsAsExpected) {
  const Json data = Json::parse(test::file("verdict/" + GetParam() + ".json"));
  const Json cause = verdict::cause_of(data.at("finding"));
  const Json& expect = data.at("expect");
  for (const char* key : {"category", "confidence", "fix", "line", "repairs"}) {
    EXPECT_EQ(cause.value(key, Json()), expect.value(key, Json())) << key << "\n"
                                                                   << data.at("about") << "\n"
                                                                   << cause.dump(1);
  }
  if (expect.contains("because")) {
    EXPECT_EQ(cause.at("because"), expect.at("because"));
  }
  EXPECT_FALSE(cause.at("because").get<std::string>().empty());
}

INSTANTIATE_TEST_SUITE_P(Cases, Verdict, testing::ValuesIn(cases()), [](const auto& info) { return info.param; });

TEST(VerdictOfSamples, NamesTheLineToChange) {
  const Json gpt = verdict::cause_of(test::sample("private_gpt.jsonl").finding);
  EXPECT_EQ(gpt.at("category"), "input-not-moved");
  EXPECT_EQ(gpt.at("confidence"), "high");
  EXPECT_EQ(gpt.at("fix"), "encoded = {key: value.to(self.model.device) for key, value in batch.items()}");
  EXPECT_EQ(gpt.at("line"), 40);
  const Json petals = verdict::cause_of(test::sample("petals.jsonl").finding);
  EXPECT_EQ(petals.at("category"), "cached-state-elsewhere");
  EXPECT_EQ(petals.at("fix"), "key_states = torch.cat([past_key_value[0].to(key_states.device), key_states], dim=2)");
}

TEST(VerdictOfAnything, IsUnknownAndNeverFails) {
  for (const Json& odd :
       {Json(nullptr), Json(5), Json::object(),
        Json({{"operands", {1, nullptr, {{"device", 5}, {"names", {{{"frame", -1}, {"name", "x"}}}}}}},
              {"python", {nullptr}}})}) {
    EXPECT_EQ(verdict::cause_of(odd).at("category"), "unknown") << odd;
  }
}

}  // namespace
}  // namespace devtrace::report
