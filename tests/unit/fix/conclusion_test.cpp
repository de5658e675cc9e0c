// What a search has shown, in its findings.
#include "fix/trials/conclusion.h"

#include <gmock/gmock.h>

namespace devtrace::fix {
namespace {

using testing::ElementsAre;

Round round(const char* fingerprint, std::vector<Tried> tried, std::optional<size_t> chosen) {
  Round one;
  one.finding.finding.fingerprint = fingerprint;
  one.finding.finding.id = 40;
  one.finding.finding.cause = {"unknown", "low", "Nobody knows.", "", "", 0, "", {}, {}};
  one.tried = std::move(tried);
  one.chosen = chosen;
  return one;
}

Tried edit(const char* kind, const char* category, Result result = Result::ran_to_end) {
  Tried one;
  one.candidate.kind = kind;
  one.candidate.category = category;
  one.candidate.title = "y: made on x.device";
  one.candidate.code = "y = torch.ones(2, device=x.device)";
  one.candidate.file = "/p/a.py";
  one.candidate.line = 7;
  one.candidate.added = {{"/p/a.py", 7}};
  one.judgement.result = result;
  return one;
}

SearchResult solved(Round last) {
  SearchResult result;
  result.before.findings = {last.finding};
  result.edits = last.tried[*last.chosen].candidate;
  result.rounds = {std::move(last)};
  result.after.code = 0;
  result.after.launches = {{"cuda:0", 3}, {"cuda:1", 0}};
  result.after.copy_sites = {{"/p/a.py", 7, 30, 3}, {"/p/a.py", 8, 50, 1}};
  result.solved = true;
  result.runs = 4;
  return result;
}

TEST(Conclusion, AVerifiedEditSaysTheCause) {
  const auto all =
      conclusion(solved(round("one", {edit("device-argument", "created-elsewhere")}, 0)), "devtrace.patch");
  ASSERT_EQ(all.findings.size(), 1u);
  EXPECT_EQ(all.findings[0].id, 1);
  const finding::Cause& cause = all.findings[0].cause;
  EXPECT_EQ(cause.category, "created-elsewhere");
  EXPECT_EQ(cause.confidence, "medium");
  EXPECT_EQ(cause.because, "In rehearsal this edit repaired it: y: made on x.device.");
  EXPECT_EQ(cause.fix, "y = torch.ones(2, device=x.device)");
  EXPECT_EQ(cause.line, 7);
  EXPECT_EQ(cause.repairs, "cause");
  const finding::Verified& verified = cause.verified;
  EXPECT_EQ(verified.outcome, "ran-to-end");
  EXPECT_EQ(verified.findings_before, 1);
  EXPECT_EQ(verified.findings_after, 0);
  EXPECT_EQ(verified.patch, "devtrace.patch");
  EXPECT_EQ(verified.bytes, 30) << "what the added line moves";
  EXPECT_EQ(verified.bytes_per_step, 10);
  EXPECT_EQ(verified.runs, 4);
  EXPECT_THAT(verified.devices_with_work, ElementsAre("cuda:0"));
  EXPECT_TRUE(all.open.empty());
}

TEST(Conclusion, AMoveAtTheUseRepairsTheLineAlone) {
  const auto all = conclusion(solved(round("one", {edit("move-at-use", "")}, 0)), "devtrace.patch");
  EXPECT_EQ(all.findings[0].cause.repairs, "line");
  EXPECT_EQ(all.findings[0].cause.category, "unknown") << "it speaks for no sort of mistake";
}

TEST(Conclusion, AReportedFixThatDidNotHelpIsDoubted) {
  Round last =
      round("one", {edit("reported-fix", "", Result::failed), edit("device-argument", "created-elsewhere")}, 1);
  last.finding.finding.cause.category = "moved-away";
  last.finding.finding.cause.confidence = "high";
  const auto all = conclusion(solved(std::move(last)), "devtrace.patch");
  EXPECT_EQ(all.findings[0].cause.category, "created-elsewhere");
  EXPECT_EQ(all.findings[0].cause.confidence, "medium");
}

TEST(Conclusion, WhatIsLeftComesBehind) {
  SearchResult result = solved(round("one", {edit("device-argument", "created-elsewhere")}, 0));
  result.solved = false;
  result.after.findings.emplace_back().finding.fingerprint = "two";
  result.after.values = false;
  const auto all = conclusion(result, "devtrace.patch");
  ASSERT_EQ(all.findings.size(), 2u);
  EXPECT_EQ(all.findings[0].cause.verified.outcome, "further");
  EXPECT_EQ(all.findings[0].cause.verified.findings_before, 2);
  EXPECT_EQ(all.findings[1].fingerprint, "two");
  EXPECT_EQ(all.findings[1].id, 2);
  EXPECT_THAT(all.open, ElementsAre("No values were computed (--no-values): what depends on them may go another way."));
}

}  // namespace
}  // namespace devtrace::fix
