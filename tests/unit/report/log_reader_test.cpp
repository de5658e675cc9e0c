// Logs as they are read, and fingerprints.
#include "report/record/log_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "finding/json.h"
#include "report/log/fingerprint.h"
#include "report/record/json_access.h"
#include "tests/unit/report/data.h"

namespace devtrace::report {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

const std::string kProcess = "{\"record\":\"process\",\"schema\":1,\"pid\":1}\n";

struct Read {
  LogReading reading;
  std::vector<Json> records;
};

Read read(const std::string& text) {
  std::istringstream in(text);
  Read out;
  out.reading = read_log(in, "a.jsonl", [&](Json&& record) { out.records.push_back(std::move(record)); });
  return out;
}

std::string error_of(const std::string& text) {
  try {
    read(text);
  } catch (const LogError& error) {
    return error.what();
  }
  return "no error";
}

TEST(LogReader, GivesEveryRecordInOrder) {
  const auto all = read(test::file("private_gpt.jsonl"));
  ASSERT_THAT(all.records, SizeIs(3));
  EXPECT_EQ(all.records[1].at("operation"), "aten::index_select");
  EXPECT_THAT(all.reading.warnings, IsEmpty());
  EXPECT_TRUE(all.reading.ended);
}

TEST(LogReader, ToleratesATornLastLineAndSaysSo) {
  const auto torn = read(kProcess + "{\"record\":\"finding\",\"id\":1}\n{\"record\":\"fin");
  EXPECT_THAT(torn.records, SizeIs(2));
  EXPECT_THAT(torn.reading.warnings, ElementsAre(StartsWith("a.jsonl:3: the last line is cut off")));
  EXPECT_FALSE(torn.reading.ended);
}

TEST(LogReader, ReadsAWholeLastLineWithoutItsEnd) {
  const auto all = read(kProcess + "{\"record\":\"end\"}");
  EXPECT_THAT(all.records, SizeIs(2));
  EXPECT_THAT(all.reading.warnings, IsEmpty());
}

TEST(LogReader, LeavesOutWhatIsNoRecordInTheMiddle) {
  const auto all = read(kProcess + "nonsense\n[1]\n{\"record\":\"comet\"}\n\n");
  EXPECT_THAT(all.records, SizeIs(2)) << "records it does not know are given on";
  EXPECT_THAT(all.reading.warnings, ElementsAre(StartsWith("a.jsonl:2: "), StartsWith("a.jsonl:3: ")));
}

TEST(LogReader, ReplacesBytesThatAreNoUtf8) {
  const auto all = read(kProcess + "{\"record\":\"finding\",\"operation\":\"a\xFF\"}\n");
  ASSERT_THAT(all.records, SizeIs(2));
  EXPECT_EQ(all.records[1].at("operation"), "a\uFFFD");
}

TEST(LogReader, RefusesWhatIsNoLogNamingFileAndLine) {
  EXPECT_THAT(error_of(""), HasSubstr("a.jsonl: empty"));
  EXPECT_THAT(error_of("\n\n"), HasSubstr("a.jsonl: empty"));
  EXPECT_THAT(error_of("hello\nworld\n"), StartsWith("a.jsonl:1: not a devtrace log"));
  EXPECT_THAT(error_of("\x7f"
                       "ELF\x02\x01"),
              StartsWith("a.jsonl:1: not a devtrace log"));
  EXPECT_THAT(error_of("{\"event\":\"x\"}\n"), StartsWith("a.jsonl:1: not a devtrace log"));
  EXPECT_THAT(error_of("{\"record\":\"process\"}\n"), HasSubstr("no schema number"));
  EXPECT_THAT(error_of("{\"record\":\"process\",\"schema\":2}\n"), HasSubstr("schema 2"));
}

TEST(LogReader, RefusesWhatWouldHarmIt) {
  const std::string deep = std::string(1 << 20, '[') + std::string(1 << 20, ']');
  EXPECT_THAT(error_of(deep), StartsWith("a.jsonl:1: not a devtrace log"));
  EXPECT_THAT(read(kProcess + "{\"x\":" + deep + "}\n").reading.warnings, SizeIs(1));
  std::string wide = "{\"record\":\"finding\"";
  for (int field = 0; field < 200000; ++field) wide += ",\"" + std::to_string(field) + "\":1";
  EXPECT_THAT(read(kProcess + wide + "}\n").reading.warnings, SizeIs(1))
      << "ordered_json is quadratic in an object's fields";
}

TEST(LogReader, PassesOverAHugeLine) {
  const auto all = read(kProcess + std::string(kLongestLine + 10, 'x') + "\n{\"record\":\"end\"}\n");
  EXPECT_THAT(all.records, SizeIs(2));
  EXPECT_THAT(all.reading.warnings, ElementsAre(StartsWith("a.jsonl:2: a line of more than 64 MiB")));
}

TEST(LogReader, ReadsLinesOfEveryLength) {
  // Its blocks have 256 KiB: lines that end at, before and behind their ends.
  std::string text = kProcess;
  for (const size_t length : {1u, 1000u, (256u << 10) - 1, 256u << 10, (256u << 10) + 1, 1u << 20})
    text += "{\"x\":\"" + std::string(length, 'x') + "\"}\n";
  const auto all = read(text);
  ASSERT_THAT(all.records, SizeIs(7));
  EXPECT_EQ(all.records[5].at("x").get<std::string>().size(), (256u << 10) + 1);
  EXPECT_THAT(all.reading.warnings, IsEmpty());
}

TEST(LogReader, PassesOverFindingsThatAreNotWanted) {
  finding::Finding finding;
  finding.id = 3;
  finding.kind = "refused-op";
  finding.severity = "error";
  finding.fingerprint = "0123456789abcdef";
  finding.time = 12.5;
  finding.message = "\",\"count\":9,\"pid\":9}";
  finding.count = 2;
  Json record = finding::to_json(finding);
  record["pid"] = 7;
  std::istringstream in(kProcess + json_line(record) + "{\"record\": \"finding\"}\n" + json_line(record));
  int asked = 0, given = 0;
  const auto reading = read_log(
      in, "a.jsonl", [&](Json&&) { ++given; },
      [&](const FindingLine& line) {
        EXPECT_EQ(line.id, 3);
        EXPECT_EQ(line.kind, "refused-op");
        EXPECT_EQ(line.fingerprint, "0123456789abcdef");
        EXPECT_EQ(line.time, 12.5);
        EXPECT_EQ(line.count, 2);
        EXPECT_EQ(line.pid, 7);
        EXPECT_FALSE(line.note || line.suppressed());
        return ++asked == 2;
      });
  EXPECT_EQ(asked, 2) << "what is not written as we do is parsed";
  EXPECT_EQ(given, 3);
  EXPECT_EQ(reading.records, 4);
}

TEST(LogReader, StopsComplainingAtSomePoint) {
  std::string text = kProcess;
  for (int line = 0; line < 1000; ++line) text += "nonsense\n";
  EXPECT_THAT(read(text).reading.warnings, SizeIs(21));
}

TEST(LogsAt, NamesWhatIsMissing) {
  EXPECT_THROW(logs_at("tests/data/no-such-file"), LogError);
  EXPECT_THROW(logs_at("tests/unit"), LogError) << "a folder without logs";
  EXPECT_THAT(logs_at("tests/data"), SizeIs(4));
}

}  // namespace
}  // namespace devtrace::report

namespace devtrace::report {
namespace {

using test::sample;

std::string fingerprint_of(const Json& process, const Json& record) {
  return fingerprint(string(process, "cwd"), finding::read(record));
}

class Fingerprint : public testing::Test {
 protected:
  test::Sample it = sample("private_gpt.jsonl");
  const std::string before = fingerprint_of(it.process, it.finding);
  std::string now() const { return fingerprint_of(it.process, it.finding); }
};

// Baselines and suppressions in other people's repositories hold these: they must never change.
TEST_F(Fingerprint, IsStableForEver) {
  EXPECT_EQ(before, "5a5d275d57563f0e");
  const auto petals = sample("petals.jsonl");
  EXPECT_EQ(fingerprint_of(petals.process, petals.finding), "93026fe4df346f88");
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
  for (const Json& malformed : {Json(nullptr), Json(5), Json::array(),
                                Json({{"devices", 5}, {"python", {1, nullptr, "x"}}, {"kind", Json::array()}})}) {
    EXPECT_EQ(fingerprint_of(malformed, malformed).size(), 16u);
  }
}

}  // namespace
}  // namespace devtrace::report
