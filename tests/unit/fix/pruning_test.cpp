// Candidates that need no run, by what others have shown.
#include "fix/trials/pruning.h"

#include <gtest/gtest.h>

namespace devtrace::fix {
namespace {

RecordedFinding finding(const char* device = "cpu", const char* fingerprint = "one") {
  RecordedFinding one;
  one.finding.fingerprint = fingerprint;
  devtrace::finding::Operand& operand = one.finding.operands.emplace_back();
  operand.name = "x";
  operand.device = device;
  return one;
}

Candidate candidate(const char* identity, const char* asks = "", const char* alternatives = "") {
  Candidate one;
  one.identity = identity;
  one.asks = asks;
  one.alternatives = alternatives;
  return one;
}

Tried failed(const Candidate& candidate, std::vector<RecordedFinding> findings, const char* last_line = "") {
  Tried one;
  one.candidate = candidate;
  one.outcome.findings = std::move(findings);
  one.outcome.last_line = last_line;
  one.judgement.result = Result::failed;
  return one;
}

TEST(Pruning, WhatLeftTheFindingAsItWasIsNotRunAgain) {
  Pruning pruning;
  EXPECT_FALSE(pruning.needless(finding(), candidate("a")));
  pruning.learn(finding(), failed(candidate("a"), {finding()}));
  EXPECT_TRUE(pruning.needless(finding(), candidate("a"))) << "on another way to the same finding";
  EXPECT_FALSE(pruning.needless(finding(), candidate("b")));
  EXPECT_FALSE(pruning.needless(finding("cuda:1"), candidate("a"))) << "operands on other devices";
  EXPECT_FALSE(pruning.needless(finding("cpu", "two"), candidate("a"))) << "another finding";
}

TEST(Pruning, WhatFailedOtherwiseMayBeBetterOnAnotherWay) {
  Pruning pruning;
  pruning.learn(finding(), failed(candidate("a"), {finding("cpu", "earlier")}));
  EXPECT_FALSE(pruning.needless(finding(), candidate("a")));
  Tried late = failed(candidate("b"), {finding()});
  late.outcome.timed_out = true;
  pruning.learn(finding(), late);
  EXPECT_FALSE(pruning.needless(finding(), candidate("b")));
}

TEST(Pruning, AnObjectWithoutADeviceIsNotAskedTwice) {
  Pruning pruning;
  const char* error = "AttributeError: 'int' object has no attribute 'device'";
  pruning.learn(finding(), failed(candidate("a", "f: size.device"), {}, error));
  EXPECT_TRUE(pruning.needless(finding(), candidate("b", "f: size.device")));
  EXPECT_FALSE(pruning.needless(finding(), candidate("c", "g: size.device"))) << "another function's variable";
  EXPECT_FALSE(pruning.needless(finding(), candidate("d")));
  pruning.learn(finding(),
                failed(candidate("e", "f: x.device"), {}, "AttributeError: 'N' object has no attribute 'name'"));
  EXPECT_FALSE(pruning.needless(finding(), candidate("f", "f: x.device"))) << "another error";
}

TEST(Pruning, WhatCannotBeMovedIsNotMovedElsewhere) {
  Pruning pruning;
  const char* error = "AttributeError: 'dict' object has no attribute 'to'";
  pruning.learn(finding(), failed(candidate("a", "f: x.device", "state"), {}, error));
  EXPECT_TRUE(pruning.needless(finding(), candidate("b", "f: y.device", "state")));
  EXPECT_FALSE(pruning.needless(finding(), candidate("c", "f: x.device", "value")));
  pruning.learn(finding(), failed(candidate("d"), {}, error));
  EXPECT_FALSE(pruning.needless(finding(), candidate("e"))) << "an edit of one kind only";
}

TEST(Pruning, OneWayToSayTheDeviceIsEnoughForNow) {
  Tried tried = failed(candidate("a", "f: x.device", "place"), {finding()});
  EXPECT_FALSE(Pruning::said_already({tried}, candidate("b", "f: y.device", "place")));
  tried.judgement.result = Result::further;
  EXPECT_TRUE(Pruning::said_already({tried}, candidate("b", "f: y.device", "place")));
  EXPECT_FALSE(Pruning::said_already({tried}, candidate("c", "f: y.device", "elsewhere")));
  EXPECT_FALSE(Pruning::said_already({tried}, candidate("d")));
}

}  // namespace
}  // namespace devtrace::fix
