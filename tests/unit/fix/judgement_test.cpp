// What a run with edits says of them.
#include "fix/trials/judgement.h"

#include <gtest/gtest.h>

namespace devtrace::fix {
namespace {

RecordedFinding found(const char* fingerprint, const char* operand = "x") {
  RecordedFinding one;
  one.finding.fingerprint = fingerprint;
  one.finding.operation = "aten::add";
  one.finding.operands.emplace_back().name = operand;
  return one;
}

Outcome run(std::vector<RecordedFinding> findings, int code, uint64_t launches) {
  Outcome outcome;
  outcome.code = code;
  outcome.findings = std::move(findings);
  outcome.launches["cuda:0"] = launches;
  return outcome;
}

const Outcome kBefore = run({found("first")}, 1, 100);

TEST(Judgement, TheEnd) {
  EXPECT_EQ(judge(kBefore, run({}, 0, 50)).result, Result::ran_to_end);
}

TEST(Judgement, AnEndOnTheCpuIsNone) {
  const auto judged = judge(kBefore, run({}, 0, 0));
  EXPECT_EQ(judged.result, Result::failed);
  EXPECT_EQ(judged.why, "ran to its end, but nothing runs on a GPU any more");
}

TEST(Judgement, AModelThatWentToTheCpuIsNoRepair) {
  Outcome before = kBefore, after = run({}, 0, 500);
  before.placement = {{"Net head.weight", {"cuda:0"}}, {"Net table", {"cpu"}}};
  after.placement = {{"Net head.weight", {"cuda:1"}}, {"Net table", {"cuda:0"}}, {"Net new", {"cpu"}}};
  EXPECT_EQ(judge(before, after).result, Result::ran_to_end);
  for (const char* device : {"cpu", "meta"}) {
    after.placement["Net head.weight"] = {device};
    EXPECT_EQ(judge(before, after).why, std::string("ran to its end, but head.weight lies on ") + device + " then");
  }
  before.placement["Net body.weight"] = {"meta", "cuda:0"};
  EXPECT_EQ(judge(before, after).result, Result::ran_to_end) << "hooks bring and take it";
}

TEST(Judgement, AnotherErrorThatTheProgramSwallowsIsNoRepair) {
  Outcome before = run({found("first")}, 0, 100), after = run({}, 0, 100);
  before.printed = after.printed = 7;
  EXPECT_EQ(judge(before, after).result, Result::failed);
  after.printed = 8;
  EXPECT_EQ(judge(before, after).result, Result::ran_to_end);
  after = run({}, 0, 101);
  EXPECT_EQ(judge(before, after).result, Result::ran_to_end);
}

TEST(Judgement, TheFindingIsStillThere) {
  const auto judged = judge(kBefore, run({found("first")}, 1, 500));
  EXPECT_EQ(judged.result, Result::failed);
  EXPECT_EQ(judged.why, "the finding is still there");
}

TEST(Judgement, AnotherOperandOfTheSameFunctionIsAnotherFinding) {
  EXPECT_EQ(judge(kBefore, run({found("first", "y")}, 1, 100)).result, Result::further);
}

TEST(Judgement, FurtherToTheNextFinding) {
  EXPECT_EQ(judge(kBefore, run({found("second")}, 1, 101)).result, Result::further);
}

TEST(Judgement, RefusedBeforeThat) {
  EXPECT_EQ(judge(kBefore, run({found("second")}, 1, 99)).result, Result::failed);
}

TEST(Judgement, WhatTheProgramMetBeforeIsNotNew) {
  EXPECT_EQ(judge(run({found("first"), found("second")}, 1, 100), run({found("second")}, 1, 90)).result,
            Result::further);
}

TEST(Judgement, AnErrorOfTheEditIsNoWayFurther) {
  Outcome after = run({}, 1, 101);
  after.last_line = "AttributeError: 'Normal' object has no attribute 'to'";
  const auto judged = judge(kBefore, after);
  EXPECT_EQ(judged.result, Result::failed);
  EXPECT_EQ(judged.why, "then: " + after.last_line);
}

TEST(Judgement, AnotherErrorMuchLaterIs) {
  EXPECT_EQ(judge(kBefore, run({}, 1, 200)).result, Result::further);
}

TEST(Judgement, StillRunning) {
  Outcome after = run({}, 137, 300);
  after.timed_out = true;
  EXPECT_EQ(judge(kBefore, after).result, Result::further);
  after.launches["cuda:0"] = 100;
  EXPECT_EQ(judge(kBefore, after).result, Result::failed);
}

}  // namespace
}  // namespace devtrace::fix
