// Which of several edits that count is the best.
#include "fix/trials/ranking.h"

#include <gtest/gtest.h>

namespace devtrace::fix {
namespace {

// One that ran to its end, with so many launches on each device.
Tried tried(const char* title, uint64_t first = 100, uint64_t second = 100) {
  Tried one;
  one.candidate.title = title;
  one.candidate.changed = 1;
  one.outcome.code = 0;
  one.outcome.launches = {{"cuda:0", first}, {"cuda:1", second}};
  one.judgement.result = Result::ran_to_end;
  return one;
}

Tried stopped(const char* title, const char* next, uint64_t launches) {
  Tried one = tried(title, launches, 0);
  one.judgement.result = Result::further;
  one.outcome.code = 1;
  one.outcome.findings.emplace_back().finding.fingerprint = next;
  return one;
}

std::vector<std::string> order(std::vector<Tried> all) {
  std::vector<std::string> titles;
  for (const size_t i : ranked(all, Outcome())) titles.push_back(all[i].candidate.title);
  return titles;
}

using Titles = std::vector<std::string>;

TEST(Ranking, WhatFailedIsNotThere) {
  Tried failed = tried("failed");
  failed.judgement.result = Result::failed;
  EXPECT_EQ(order({failed, tried("end")}), Titles{"end"});
}

TEST(Ranking, TheEndThenTheFurthest) {
  EXPECT_EQ(order({stopped("near", "a", 10), stopped("far", "b", 20), tried("end")}), (Titles{"end", "far", "near"}));
}

TEST(Ranking, OneKernelMoreOnTheWayIsNoFurther) {
  Tried more = stopped("more", "a", 11);
  more.candidate.changed = 2;
  EXPECT_EQ(order({more, stopped("less", "a", 10)}), (Titles{"less", "more"}));
}

TEST(Ranking, TheCpuIsTheLastResort) {
  Tried to_cpu = tried("cpu");
  to_cpu.candidate.to_cpu = true;
  EXPECT_EQ(order({to_cpu, stopped("further", "a", 10)}), (Titles{"further", "cpu"}));
}

TEST(Ranking, TheWorkStaysWhereItWas) {
  std::vector<Tried> all = {tried("moves", 200, 0), tried("stays")};
  all[1].outcome.bytes = 1 << 20;
  all[1].candidate.changed = 3;
  EXPECT_EQ(ranked(all, Outcome()), (std::vector<size_t>{1, 0}));
  EXPECT_TRUE(all[0].moves_work);
  EXPECT_FALSE(all[1].moves_work);
}

TEST(Ranking, OfTwoThatGatherTheWorkTheRunBeforeDecides) {
  std::vector<Tried> all = {tried("to the first", 500, 0), tried("to the second", 0, 500)};
  Outcome before;
  before.launches = {{"cuda:0", 2}, {"cuda:1", 80}};
  EXPECT_EQ(ranked(all, before), (std::vector<size_t>{1, 0}));
  EXPECT_TRUE(all[0].moves_work);
  EXPECT_FALSE(all[1].moves_work);
}

TEST(Ranking, ADeviceThatTheProgramDoesNotNameComesLast) {
  Tried named = tried("named");
  named.candidate.names_device = named.candidate.names_new_device = true;
  Tried more = tried("said");
  more.outcome.bytes = 1 << 20;
  EXPECT_EQ(order({named, more}), (Titles{"said", "named"}));
}

TEST(Ranking, FewerBytesThenFewerLinesThenTheLikelier) {
  Tried bytes = tried("bytes"), lines = tried("lines");
  bytes.outcome.bytes = 1 << 20;
  lines.candidate.changed = 2;
  EXPECT_EQ(order({bytes, lines, tried("first"), tried("second")}), (Titles{"first", "second", "lines", "bytes"}));
}

TEST(Ranking, WhereItComesFromBeforeWhereItIsUsed) {
  Tried use = tried("use"), origin = tried("origin");
  use.candidate.at_use = true;
  origin.candidate.changed = 2;
  origin.candidate.names_device = true;  // as the program does there itself
  EXPECT_EQ(order({use, origin}), (Titles{"origin", "use"}));
}

TEST(Ranking, OfTwoAtTheOriginTheOneThatNamesNoDevice) {
  Tried named = tried("named");
  named.candidate.names_device = true;
  EXPECT_EQ(order({named, tried("said")}), (Titles{"said", "named"}));
}

TEST(Ranking, WhatCannotBeBetterIsKnown) {
  Candidate to_cpu, number, words;
  to_cpu.to_cpu = true;
  number.names_new_device = true;
  Tried end = tried("end"), cpu = tried("cpu"), gathers = tried("gathers", 200, 0);
  cpu.candidate.to_cpu = true;
  const Outcome before = tried("before").outcome;
  EXPECT_TRUE(cannot_win(to_cpu, {end}, before));
  EXPECT_TRUE(cannot_win(number, {end}, before));
  EXPECT_FALSE(cannot_win(words, {end}, before));
  EXPECT_FALSE(cannot_win(to_cpu, {cpu, stopped("further", "a", 10)}, before));
  EXPECT_FALSE(cannot_win(number, {gathers}, before)) << "the work moves";
}

TEST(Ranking, AFewBytesDecideNothing) {
  Tried few = tried("few");
  few.outcome.bytes = 64;
  EXPECT_EQ(order({few, tried("none")}), (Titles{"few", "none"}));
}

}  // namespace
}  // namespace devtrace::fix
