// Which edits are run, and which way is followed: of a program and edits that are scripts of Python without PyTorch.
#include "fix/trials/search.h"

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>

#include "process/start.h"
#include "report/record/json.h"

namespace devtrace::fix {
namespace {

namespace fs = std::filesystem;
using report::Json;

// The program is a file with a word, which edits lengthen by a letter. STEPS says for each word which finding stops the
// program, after how many launches; no finding: it runs to its end. A word that is not there is what it was before.
// Behind the finding `waits` it does not end.
// What the program prints comes last, and "reference" stands for the run that goes on behind a finding.
constexpr const char* kProgram = R"(
import json, os, re, sys, time
folder = re.search('log_path="([^"]*)/devtrace', os.environ["DEVTRACE_OPTIONS"])[1]
steps = json.load(open(sys.argv[1]))
word = ""
if "DEVTRACE_OVERLAY" in os.environ:
    word = open(open(os.environ["DEVTRACE_OVERLAY"]).readline().rstrip().split("\t")[1]).read()
while word not in steps:
    word = word[:-1]
reference = "DEVTRACE_SIM_KEEP_GOING" in os.environ and "reference" in steps
finding, launches, *printed = steps["reference" if reference else word]
records = [{"record": "process", "schema": 1, "pid": 1, "command": ["python3"]}]
kind = "collective-stalled" if finding == "waits" else "refused-op"
if finding:
    records.append({"record": "finding", "id": 1, "kind": kind, "fingerprint": finding, "time": 1, "operands": []})
open(folder + "/devtrace-1.jsonl", "w").writelines(json.dumps(each) + "\n" for each in records)
for pid in range(2, steps.get("processes", 1) + 1):
    open(f"{folder}/devtrace-{pid}.jsonl", "w").writelines(json.dumps(each) + "\n" for each in records[:1])
json.dump({"pid": 1, "launches": {"cuda:0": launches}}, open(folder + "/summary/1.json", "w"))
print(*printed)
if finding == "waits":
    time.sleep(600)
if finding == "slow" and "DEVTRACE_SIM_KEEP_GOING" not in os.environ:
    time.sleep(1)
sys.exit(bool(finding) and not reference)
)";

// EDITS: the letters that may be tried for each finding, in their order. A capital moves lines of the program.
constexpr const char* kEdits = R"(
import json, os, sys
question = json.load(open(sys.argv[1]))
edits = json.load(open(os.path.join(question["folder"], "edits")))
word = "".join(question["texts"].values())
if question["finding"] is None:  # the word without each letter
    left = [word[:i] + word[i + 1 :] for i in range(len(word))]
    found = [{"code": "", "patch": text, "texts": {"/program": text}} for text in left]
    json.dump({"candidates": found}, open(sys.argv[2], "w"))
    sys.exit()
found = [
    {"kind": "collective-of-all" if letter.isupper() else "k", "title": letter, "identity": letter, "patch": word + letter, "texts": {"/program": word + letter}}
    for letter in edits.get(question["finding"]["fingerprint"], "")
]
json.dump({"candidates": found}, open(sys.argv[2], "w"))
)";

struct Ran {
  SearchResult result;
  std::string tried;  // letters, in the order of their runs
};

Ran ran(const Json& steps, const Json& edits, double budget = 60, Limits more = {0, 1, 24}) {
  const Workspace workspace;
  const fs::path folder = workspace.make("scripts");
  const auto file = [&](const char* name, const std::string& text) {
    std::ofstream(folder / name) << text;
    return (folder / name).string();
  };
  file("edits", edits.dump());
  const std::string asked = file("edits.py", kEdits);
  Runs runs{
      workspace,
      {{{"python3", "-S", file("program.py", kProgram), file("steps", steps.dump())}, process::own_environment()}, {}},
      {},
      60,
      true};
  Ran all;
  all.result = search(
      runs, asked, folder, {budget, more.jobs, more.tries, more.by_cores}, [] { return false; },
      [&](const Progress& progress) {
        if (progress.last) all.tried += progress.last->candidate.title;
      });
  return all;
}

TEST(Search, TheRestWaitsUntilAWayHasLedNowhere) {
  // `a` gets to another finding, which only `m`, the thirteenth, would have spared.
  const Json steps = {{"", {"one", 10}}, {"a", {"two", 20}}, {"m", {"", 40}}};
  const Ran all = ran(steps, {{"one", "abcdefghijklmn"}, {"two", "xy"}});
  EXPECT_EQ(all.tried, "abcdefghijklxym");
  EXPECT_TRUE(all.result.solved);
  EXPECT_EQ(all.result.edits.title, "m");
  ASSERT_EQ(all.result.rounds.size(), 1u);
  EXPECT_EQ(all.result.rounds[0].tried.size(), 13u);
  ASSERT_EQ(all.result.given_up.size(), 1u) << "two";
}

TEST(Search, AWayThatLeadsOnIsFollowed) {
  const Json steps = {{"", {"one", 10}}, {"b", {"two", 20}}, {"bx", {"", 40}}};
  const Ran all = ran(steps, {{"one", "abcdefghijklmn"}, {"two", "xy"}});
  EXPECT_EQ(all.tried, "abcdefghijklx") << "m and n are not needed, and y can be no better than x";
  EXPECT_TRUE(all.result.solved);
  EXPECT_EQ(all.result.edits.patch, "bx");
}

TEST(Search, WhatPrintsAsTheReferenceIsTheBetterRepair) {
  const Json steps = {{"", {"one", 10}},
                      {"reference", {"one", 40, "loss 1.6"}},
                      {"a", {"", 40, "loss 1.7"}},
                      {"b", {"", 40, "loss 1.6"}}};
  const Ran all = ran(steps, {{"one", "abcd"}});
  EXPECT_EQ(all.tried, "ab");
  EXPECT_EQ(all.result.edits.title, "b");
  EXPECT_EQ(all.result.prints_as_reference, true);
}

TEST(Search, AnotherOutputThanTheReferencesIsSaid) {
  const Json steps = {{"", {"one", 10}}, {"reference", {"one", 40, "at 12:01"}}, {"a", {"", 40, "at 12:02"}}};
  EXPECT_EQ(ran(steps, {{"one", "a"}}).result.prints_as_reference, false);
}

TEST(Search, AnEndWithMostOfTheWorkOnTheCpuIsNone) {
  const Json steps = {{"", {"one", 10}}, {"reference", {"one", 40, "loss 1.6"}}, {"a", {"", 15, "loss 1.6"}}};
  const Ran all = ran(steps, {{"one", "a"}});
  EXPECT_FALSE(all.result.solved);
  ASSERT_EQ(all.result.given_up.size(), 1u);
  EXPECT_EQ(all.result.given_up[0].tried[0].judgement.why, "ran to its end, but most of the work went to the CPU");
  EXPECT_TRUE(ran({{"", {"one", 10}}, {"reference", {"one", 40}}, {"a", {"", 35}}}, {{"one", "a"}}).result.solved);
}

TEST(Search, ARunWhoseRanksWaitForEachOtherIsEnded) {
  const auto began = std::chrono::steady_clock::now();
  const Ran all = ran({{"", {"waits", 10}}, {"a", {"waits", 10}}, {"b", {"", 40}}}, {{"waits", "ab"}});
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(40)) << "of 60 for each run";
  EXPECT_EQ(all.tried, "ab");
  EXPECT_EQ(all.result.edits.title, "b");
  EXPECT_TRUE(all.result.solved);
}

TEST(Search, AProgramOfSeveralProcessesHasFewerRunsAtATime) {
  Json steps = {{"", {"one", 10}}, {"reference", {"one", 40}}, {"a", {"", 40}}, {"b", {"", 40}}, {"processes", 4}};
  const auto runs = [&] { return ran(steps, {{"one", "abcd"}}, 60, {0, 4, 24, true}).result.runs; };
  EXPECT_EQ(runs(), 3) << "as it is, for reference, and with an edit that settles it";
  steps["processes"] = 1;
  EXPECT_GT(runs(), 3);
}

TEST(Search, WhatHasShownNothingIsNotRunAgain) {
  const Json steps = {{"", {"slow", 10}}, {"a", {"", 40}}};
  EXPECT_EQ(ran(steps, {{"slow", "a"}}, 60, {0, 2, 24}).result.runs, 3) << "as it is, for reference, and with an edit";
}

TEST(Search, WhatMovesLinesIsLeftAsItIs) {
  Json steps = {{"", {"one", 10}}, {"A", {"two", 20}}, {"Ab", {"", 40}}, {"b", {"", 40}}};
  EXPECT_EQ(ran(steps, {{"one", "A"}, {"two", "b"}}).result.edits.patch, "Ab");
  steps = {{"", {"one", 10}}, {"a", {"two", 20}}, {"ab", {"", 40}}, {"b", {"", 40}}};
  EXPECT_EQ(ran(steps, {{"one", "a"}, {"two", "b"}}).result.edits.patch, "b") << "without what was needed no more";
}

TEST(Search, TheBudgetIsByTheFirstRunUnlessItIsGiven) {
  const Json steps = {{"", {"one", 10}}, {"a", {"", 40}}};
  EXPECT_EQ(ran(steps, {{"one", "a"}}, 0).result.budget, 120) << "of a program that takes less than three seconds";
  EXPECT_EQ(ran(steps, {{"one", "a"}}, 50).result.budget, 50);
}

TEST(Search, AReferenceThatFailedSaysNothing) {
  const Json steps = {{"", {"one", 10}}, {"a", {"", 40}}};
  const Ran all = ran(steps, {{"one", "ab"}});
  EXPECT_EQ(all.tried, "a");
  EXPECT_EQ(all.result.prints_as_reference, std::nullopt);
}

TEST(Search, WhatIsNotNeededInTheEndIsLeftOut) {
  const Json steps = {{"", {"one", 10}}, {"a", {"two", 20}}, {"ab", {"", 40}}, {"b", {"", 40}}};
  const Ran all = ran(steps, {{"one", "a"}, {"two", "b"}});
  EXPECT_TRUE(all.result.solved);
  EXPECT_EQ(all.result.edits.patch, "b");
}

TEST(Search, WhatIsNeededStays) {
  const Json steps = {{"", {"one", 10}}, {"a", {"two", 20}}, {"ab", {"", 40}}, {"b", {"one", 10}}};
  const Ran all = ran(steps, {{"one", "a"}, {"two", "b"}});
  EXPECT_EQ(all.result.edits.patch, "ab");
  EXPECT_EQ(all.result.runs, 6) << "the program, the reference, two edits, and the patch without each";
}

TEST(Search, WhatLeftAFindingAsItWasIsNotRunOnAnotherWayToIt) {
  const Json steps = {{"", {"one", 10}}, {"a", {"two", 20}}, {"b", {"two", 20}}};
  const Ran all = ran(steps, {{"one", "abc"}, {"two", "xyz"}});
  EXPECT_EQ(all.tried, "abcxyz");
  EXPECT_FALSE(all.result.solved);
  EXPECT_EQ(all.result.edits.title, "a") << "the nearest";
}

}  // namespace
}  // namespace devtrace::fix
