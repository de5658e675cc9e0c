#include "tracker/findings/occurrences.h"

#include <gtest/gtest.h>

using namespace devtrace::findings;

namespace {

using Seen = Occurrences::Seen;
using Finding = Occurrences::Finding;

struct OccurrencesTest : testing::Test {
  Totals totals;
  Occurrences all{{}, totals};
};

}  // namespace

TEST_F(OccurrencesTest, TheSameCallIsCountedWithoutEvidence) {
  EXPECT_EQ(all.seen(7), Seen::never);
  EXPECT_EQ(all.add(7, "a", Severity::fault).outcome, Finding::added);
  EXPECT_EQ(all.seen(7), Seen::counted);
  EXPECT_EQ(all.count_of(1), 2u);
  EXPECT_EQ(totals.all(), 2u);
}

TEST_F(OccurrencesTest, AnotherCallMayMakeTheSameFinding) {
  all.add(7, "a", Severity::fault);
  const Finding again = all.add(8, "a", Severity::fault);
  EXPECT_EQ(again.outcome, Finding::repeated);
  EXPECT_EQ(again.id, 1);
  EXPECT_EQ(all.seen(8), Seen::counted);
  EXPECT_EQ(all.add(9, "b", Severity::fault).id, 2);
}

TEST_F(OccurrencesTest, ANoteAndAFaultOfOneFingerprintAreTwoFindings) {
  EXPECT_EQ(all.add(7, "a", Severity::note).id, 1);
  EXPECT_EQ(all.add(8, "a", Severity::fault).id, 2);
  EXPECT_EQ(all.add(9, "a", Severity::suppressed).id, 3);
  EXPECT_EQ(totals.faults(), 1u);
  EXPECT_EQ(totals.notes(), 1u);
  EXPECT_EQ(totals.suppressed(), 1u);
  all.seen(7);  // counted as what it was
  EXPECT_EQ(totals.notes(), 2u);
}

TEST_F(OccurrencesTest, AnExcusedCallIsNotCounted) {
  all.excuse(7);
  EXPECT_EQ(all.seen(7), Seen::excused);
  EXPECT_EQ(totals.all(), 0u);
}

TEST_F(OccurrencesTest, ACallThatCannotBeToldFromOthersIsNeverSeen) {
  all.add(0, "a", Severity::fault);
  EXPECT_EQ(all.seen(0), Seen::never);
}

TEST_F(OccurrencesTest, TheLogHearsOfACountAsItDoubles) {
  all.add(7, "a", Severity::fault);
  std::vector<uint64_t> told;
  for (int i = 0; i < 8; ++i) {
    all.seen(7);
    for (const auto& due : all.take_due()) told.push_back(due.count);
  }
  EXPECT_EQ(told, (std::vector<uint64_t>{2, 4, 8}));
  const auto rest = all.take_unwritten();
  ASSERT_EQ(rest.size(), 1u);
  EXPECT_EQ(rest[0].count, 9u);
  EXPECT_EQ(rest[0].fingerprint, "a");
  EXPECT_TRUE(all.take_unwritten().empty());
}

TEST_F(OccurrencesTest, WithoutDeduplicationEachIsAFinding) {
  Occurrences each({.findings = 0, .deduplicate = false}, totals);
  EXPECT_EQ(each.add(7, "a", Severity::fault).id, 1);
  EXPECT_EQ(each.seen(7), Seen::never);
  EXPECT_EQ(each.add(7, "a", Severity::fault).id, 2);
  EXPECT_EQ(each.count_of(1), 0u);
}

TEST_F(OccurrencesTest, WhatComesLaterIsDropped) {
  Occurrences one({.findings = 1, .deduplicate = true}, totals);
  one.add(7, "a", Severity::fault);
  EXPECT_EQ(one.add(8, "b", Severity::fault).outcome, Finding::dropped);
  EXPECT_EQ(one.dropped(), 1u);
  EXPECT_EQ(one.seen(8), Seen::counted);  // without evidence
  EXPECT_EQ(one.dropped(), 2u);
  EXPECT_EQ(one.add(9, "a", Severity::fault).outcome, Finding::repeated);  // of a known one nothing is dropped
  EXPECT_EQ(totals.all(), 4u);
}

TEST_F(OccurrencesTest, OnlySoManyCallsMoreAreLookedAt) {
  Occurrences one({.findings = 1, .deduplicate = true}, totals);
  one.add(7, "a", Severity::fault);
  uint64_t key = 100;
  while (one.seen(key) == Seen::never) ++key;
  EXPECT_EQ(key, 200u);
  EXPECT_EQ(one.dropped(), 1u);
  EXPECT_EQ(totals.faults(), 2u);  // as what there was before
}
