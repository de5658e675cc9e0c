// A verdict, and what came of its fix.
#include "report/verdict/verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "finding/json.h"
#include "report/html/html.h"
#include "report/log/redact.h"
#include "report/phrasing/verification.h"
#include "report/text/markdown.h"
#include "report/text/text.h"
#include "tests/unit/report/data.h"

// Every finding of tests/data/verdict gets the verdict that the line in front of it says. A wrong verdict somebody
// reports becomes a test by copying the finding's line of their log, below a line of what it should have been.
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
  for (const Json& malformed :
       {Json(nullptr), Json(5), Json::object(),
        Json({{"operands", {1, nullptr, {{"device", 5}, {"names", {{{"frame", -1}, {"name", "x"}}}}}}},
              {"python", {nullptr}}})}) {
    EXPECT_EQ(verdict_of(malformed).at("category"), "unknown") << malformed;
  }
}

}  // namespace
}  // namespace devtrace::report

namespace devtrace::report {
namespace {

using testing::HasSubstr;
using testing::Not;

Json tried(const Json& verified) {
  return {{"kind", "refused-op"},
          {"cause", {{"because", "It lives elsewhere."}, {"fix", "x = y"}, {"verified", verified}}}};
}

std::string words(const Json& verified) {
  return verification_of(tried(verified)).words;
}

const Json kRan = {{"outcome", "ran-to-end"},
                   {"findings_before", 2},
                   {"findings_after", 0},
                   {"bytes_per_step", 314572},
                   {"same_output", true}};

// `frame` is a number out of a log, which anybody may have written.
void set_frames(Json& value, int64_t frame) {
  for (auto& each : value.items()) {
    if (each.key() == "frame")
      each.value() = frame;
    else if (each.value().is_structured())
      set_frames(each.value(), frame);
  }
}

TEST(VerdictOfAnything, LooksAtNoFrameThatIsNotThere) {
  for (test::JudgedFinding each : test::judged_findings()) {
    set_frames(each.finding, 1 << 20);
    EXPECT_FALSE(verdict_of(each.finding).at("category").empty()) << each.name;
  }
}

TEST(Verification, SaysWhatBecameOfTheProgram) {
  EXPECT_EQ(verification_of(tried(kRan)).label, "verified");
  EXPECT_EQ(words(kRan),
            "with this change the program ran to its end in rehearsal; 2 findings before, 0 after; it prints what it "
            "would on one device; +307 KiB a step");
  const Json further = {{"outcome", "further"}, {"findings_before", 1}, {"findings_after", 1}, {"bytes_per_step", 0}};
  EXPECT_EQ(verification_of(tried(further)).label, "tried");
  EXPECT_EQ(words(further),
            "with this change the program got further in rehearsal, to the next finding (1 finding before, 1 after); "
            "nothing more is moved");
  EXPECT_EQ(words({{"outcome", "failed"}}), "with this change the program still failed in rehearsal");
  EXPECT_EQ(verification_of(tried({{"outcome", "failed"}})).label, "tried");
}

TEST(Verification, SaysNothingOfWhatWasNotTried) {
  for (const Json& none : {Json(), Json(5), Json::object(), Json({{"outcome", 5}}), Json({{"outcome", "unknown"}})})
    EXPECT_EQ(words(none), "") << none.dump();
  EXPECT_EQ(verification_of(Json::object()).words, "");
  EXPECT_EQ(verification_of(Json(5)).words, "");
}

TEST(Verification, SaysWhatMovesMoreOrLess) {
  const auto moves = [](const Json& fields) {
    Json verified = {{"outcome", "ran-to-end"}};
    verified.update(fields);
    return words(verified).substr(words({{"outcome", "ran-to-end"}}).size());
  };
  EXPECT_EQ(moves(Json::object()), "");
  EXPECT_EQ(moves({{"bytes_per_step", 2048}, {"bytes", 1 << 20}}), "; +2.0 KiB a step");
  EXPECT_EQ(moves({{"bytes_per_step", -2048}}), "; 2.0 KiB less a step");
  EXPECT_EQ(moves({{"bytes_per_step", 0}, {"bytes", 0}}), "; nothing more is moved");
  EXPECT_EQ(moves({{"bytes_per_step", 0}, {"bytes", 1 << 20}}), "; +1.0 MiB in all, nothing more a step");
  EXPECT_EQ(moves({{"bytes", 1 << 20}}), "; +1.0 MiB in all");
  EXPECT_EQ(moves({{"bytes", 0}}), "; nothing more is moved");
}

TEST(Verification, EachThingThatIsOpenIsASentence) {
  Json verified = {{"outcome", "ran-to-end"},
                   {"open", {"values of add were not computed", "my_kernel was not computed.", 5, ""}}};
  EXPECT_EQ(words(verified),
            "with this change the program ran to its end in rehearsal. Values of add were not computed. my_kernel was "
            "not computed.");
  verified["open"] = Json::array();
  for (int i = 0; i < 9; ++i) verified["open"].push_back("so");
  EXPECT_EQ(words(verified),
            "with this change the program ran to its end in rehearsal. So. So. So. So. So. So. And 3 more.");
}

TEST(Verification, StandsBelowTheFixInEveryFormat) {
  const Json finding = tried(kRan);
  const std::string report = text(Json::object(), finding, false);
  EXPECT_THAT(report, HasSubstr("        x = y\n  verified with this change the program ran to its end in rehearsal;"));
  EXPECT_THAT(markdown(Json::object(), finding),
              HasSubstr("```python\nx = y\n```\n\n**Verified**: with this change the program ran to its end"));
  const std::string html = html_finding(Json::object(), finding);
  const size_t begin = html.find('>') + 1;
  const Json record = Json::parse(html.substr(begin, html.find("</script>") - begin));
  EXPECT_EQ(record["shown"]["verification"], Json({{"label", "verified"}, {"words", words(kRan)}}));
  EXPECT_THAT(text(Json::object(), tried({}), false), Not(HasSubstr("verified")));
  EXPECT_THAT(markdown(Json::object(), tried({})), Not(HasSubstr("erified")));
  EXPECT_THAT(html_finding(Json::object(), tried({})), Not(HasSubstr("verification")));
}

TEST(Verification, ObeysNothingThatALogPutsIntoIt) {
  Json verified = kRan;
  verified["open"] = {"<b>\033[31m" + std::string(30000, 'x')};
  EXPECT_THAT(text(Json::object(), tried(verified), false), Not(HasSubstr("\033")));
  EXPECT_LE(text(Json::object(), tried(verified), false).size(), 4000u);
  EXPECT_THAT(markdown(Json::object(), tried(verified)), Not(HasSubstr("<b>")));
}

TEST(Verification, RedactedItNamesNothing) {
  Json verified = kRan;
  verified.update({{"patch", "acme.patch"},
                   {"devices_with_work", {"cuda:0"}},
                   {"runs", 3},
                   {"open", {"values of acme were not computed"}}});
  Redactor redactor;
  const Json finding = redactor.record(tried(verified));
  EXPECT_THAT(finding.dump(), Not(HasSubstr("acme")));
  EXPECT_EQ(finding["cause"]["verified"]["runs"], 3);
  EXPECT_EQ(verification_of(finding).words, words(kRan) + ". What is still open is left out here.");
}

}  // namespace
}  // namespace devtrace::report
