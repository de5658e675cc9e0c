#include <gtest/gtest.h>

#include "tests/unit/report/data.h"

namespace devtrace::report {
namespace {

using test::sample;

class Fingerprint : public testing::Test {
 protected:
  test::Sample it = sample("private_gpt.jsonl");
  const std::string before = fingerprint(it.process, it.finding);
  std::string now() const { return fingerprint(it.process, it.finding); }
};

// Baselines and suppressions in other people's repositories hold these: they must never change.
TEST_F(Fingerprint, IsStableForEver) {
  EXPECT_EQ(before, "5a5d275d57563f0e");
  const auto petals = sample("petals.jsonl");
  EXPECT_EQ(fingerprint(petals.process, petals.finding), "93026fe4df346f88");
}

TEST_F(Fingerprint, IsTheSameOnOtherDevicesOfTheSamePattern) {
  it.finding["devices"] = {"cuda:7", "cuda:6"};
  EXPECT_EQ(now(), before);
  it.finding["devices"] = {"cpu", "cuda:6"};
  EXPECT_NE(now(), before) << "the CPU is not a GPU";
}

TEST_F(Fingerprint, IsTheSameInAnotherCheckout) {
  const std::string from = it.process["cwd"];
  it.process["cwd"] = "/builds/17/private-gpt/";
  for (Json& frame : it.finding["python"]) {
    std::string file = frame["file"];
    if (file.starts_with(from + "/")) frame["file"] = "/builds/17/private-gpt" + file.substr(from.size());
  }
  EXPECT_EQ(now(), before);
}

TEST_F(Fingerprint, KnowsNoLinesProcessesAddressesOrLibraries) {
  it.process["pid"] = 1;
  for (Json& frame : it.finding["python"]) frame["line"] = 1;
  it.finding["operands"][0]["address"] = "0x1";
  it.finding["time"] = 0;
  it.finding["python"].erase(0);
  EXPECT_EQ(now(), before);
}

TEST_F(Fingerprint, KnowsKindOperationArgumentAndFunction) {
  for (const char* key : {"kind", "operation", "argument"}) {
    const Json kept = it.finding[key];
    it.finding[key] = "another";
    EXPECT_NE(now(), before) << key;
    it.finding[key] = kept;
  }
  it.finding["python"][10]["function"] = "another";
  EXPECT_NE(now(), before);
}

TEST_F(Fingerprint, CountsRecursionOnce) {
  const Json frame = it.finding["python"][10];
  it.finding["python"].insert(it.finding["python"].begin() + 10, frame);
  it.finding["python"].insert(it.finding["python"].begin() + 10, frame);
  EXPECT_EQ(now(), before);
}

TEST_F(Fingerprint, FallsBackToLibraryFramesWhereverTheyAreInstalled) {
  for (Json& frame : it.finding["python"]) frame.erase("project");
  const std::string all = now();
  EXPECT_NE(all, before);
  for (Json& frame : it.finding["python"]) {
    std::string file = frame["file"];
    if (const size_t at = file.find("/site-packages/"); at != file.npos)
      frame["file"] = "/opt/x/lib/python3.12" + file.substr(at);
  }
  EXPECT_EQ(now(), all);
}

TEST_F(Fingerprint, TakesAnythingForARecord) {
  for (const Json& odd : {Json(nullptr), Json(5), Json::array(),
                          Json({{"devices", 5}, {"python", {1, nullptr, "x"}}, {"kind", Json::array()}})}) {
    EXPECT_EQ(fingerprint(odd, odd).size(), 16u);
  }
}

}  // namespace
}  // namespace devtrace::report
