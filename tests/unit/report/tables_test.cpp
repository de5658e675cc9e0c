// Logs as rows of tables.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "report/record/raw_fields.h"
#include "report/tables/batches.h"
#include "report/tables/log_rows.h"
#include "report/tables/row.h"
#include "tests/unit/report/data.h"

namespace devtrace::report::tables {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

namespace fs = std::filesystem;

TEST(RawFields, AreCutWithoutBeingParsed) {
  RawFields fields;
  ASSERT_TRUE(fields.cut(R"( {"a" : "x\\\"}\\" ,"b":[1,{"c":"]"}], "d":-1.5e3,"e":null,"a":2} )"));
  EXPECT_EQ(fields["a"], R"("x\\\"}\\")");
  EXPECT_EQ(fields["b"], R"([1,{"c":"]"}])");
  EXPECT_EQ(fields["d"], "-1.5e3");
  EXPECT_EQ(fields["e"], "null");
  EXPECT_EQ(fields["none"], "");
  EXPECT_TRUE(fields.cut("{}"));
  EXPECT_TRUE(fields.empty());
}

TEST(RawFields, OfWhatDoesNotCloseAreNone) {
  for (const char* text : {"", "{", "[]", "1", R"({"a)", R"({"a":"x})", R"({"a":"x\"})", R"({"a":[{}})", R"({"a":1)",
                           R"({"a":1}})", R"({"a":})", R"({a:1})", R"({"a" 1})", R"({"a":1,})", "{\"a\":\"\\"}) {
    RawFields fields;
    EXPECT_FALSE(fields.cut(text)) << text;
    EXPECT_TRUE(fields.empty()) << text;
  }
}

TEST(RawFields, ElementsOfAnArray) {
  EXPECT_THAT(raw_elements(R"([ "a,", {"b":[1,2]} ,3])"), ElementsAre(R"("a,")", R"({"b":[1,2]})", "3"));
  for (const char* text : {"", "[]", "{}", "[1", "[1,]", "[,1]"}) EXPECT_THAT(raw_elements(text), IsEmpty()) << text;
}

std::string value(std::string_view raw, std::string_view type) {
  std::string out;
  return append_value(out, raw, type) ? out : out.empty() ? "none" : "something was left: " + out;
}

TEST(TableRow, ValuesHaveTheirColumnsTypeOrAreAbsent) {
  EXPECT_EQ(value(R"("a")", "string"), R"("a")");
  EXPECT_EQ(value(R"("\u00e9\n")", "string"), R"("é\n")");
  EXPECT_EQ(value("\"a\tb\"", "string"), "none") << "no JSON: a tab has to be escaped";
  for (const char* raw : {"1", "null", "", "\"", R"("\x")", R"("a"b")"}) EXPECT_EQ(value(raw, "string"), "none") << raw;
  EXPECT_EQ(value("12", "int"), "12");
  EXPECT_EQ(value(R"("12")", "int"), "12") << "a variable of the environment";
  for (const char* raw : {"1.5", "1e3", "true", "99999999999999999999", "12x"}) EXPECT_EQ(value(raw, "int"), "none");
  EXPECT_EQ(value("1.5", "time"), "1500000");
  EXPECT_EQ(value("1795879763.346521", "time"), "1795879763346521");
  for (const char* raw : {"1e300", "nan", "\"1\""}) EXPECT_EQ(value(raw, "time"), "none") << raw;
  EXPECT_EQ(value("1e400", "number"), "none");
  EXPECT_EQ(value("0.5", "number"), "0.5");
  EXPECT_EQ(value("true", "boolean"), "true");
  EXPECT_EQ(value("1", "boolean"), "none");
  EXPECT_EQ(value("[1,2]", "[int]"), "[1,2]");
  EXPECT_EQ(value("[]", "[int]"), "[]");
  EXPECT_EQ(value(R"([1,"x"])", "[int]"), "none");
  EXPECT_EQ(value(R"([{"name":"x","odd":1,"shape":[2],"created":{}}])", "[operands]"), R"([{"name":"x","shape":[2]}])");
}

class Tables : public testing::Test {
 protected:
  Tables() : folder_(fs::temp_directory_path() / ("devtrace-tables." + std::to_string(getpid()))) {
    fs::create_directories(folder_);
  }
  ~Tables() override { fs::remove_all(folder_); }

  fs::path log(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  }
  std::vector<Json> rows(const fs::path& log, Table table) {
    std::vector<std::string> warnings;
    std::vector<Json> all;
    for (const auto& line : test::lines_of(rows_of(identify(log, false), nullptr, warnings).text[size_t(table)]))
      all.push_back(Json::parse(line));
    return all;
  }
  fs::path folder_;
};

const std::string kProcess =
    R"({"record":"process","schema":1,"pid":7,"host":"gpu/7","started":86400.5,"torch":"2.11","environment":{"RANK":"3"}})"
    "\n";
const std::string kFinding =
    R"({"record":"finding","id":1,"kind":"refused-op","severity":"error","fingerprint":"00000000000000aa","time":86401.5,)"
    R"("python":[{"file":"torch.py","line":1},{"file":"a.py","line":2,"project":true}],"cause":{"category":"x"},"count":1,"pid":7})"
    "\n";

TEST_F(Tables, ARowOfAFindingHasWhatItsProcessAndLaterRecordsSay) {
  const auto found = rows(log("a.jsonl", kProcess + kFinding +
                                             R"({"record":"count","id":1,"count":8,"pid":7})"
                                             "\n"),
                          Table::findings);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0]["count"], 8);
  EXPECT_EQ(found[0]["rank"], 3);
  EXPECT_EQ(found[0]["torch"], "2.11");
  EXPECT_EQ(found[0]["file"], "a.py");
  EXPECT_EQ(found[0]["time"], 86401500000);
  EXPECT_EQ(found[0]["category"], "x");
  EXPECT_EQ(found[0]["suppressed"], false);
}

TEST_F(Tables, OfTrafficAndMemoryTheLastRecordHolds) {
  const auto path =
      log("a.jsonl", kProcess + R"({"record":"traffic","id":1,"from":"cpu","to":"cuda:0","bytes":1,"pid":7}
{"record":"memory","device":"cuda:0","peak":1,"pid":7}
{"record":"traffic","id":1,"from":"cpu","to":"cuda:0","bytes":5,"pid":7}
{"record":"memory","device":"cuda:0","peak":9,"pid":7}
{"record":"memory","device":"cuda:1","peak":2,"pid":7}
)");
  const auto traffic = rows(path, Table::traffic), memory = rows(path, Table::memory);
  ASSERT_THAT(traffic, SizeIs(1));
  EXPECT_EQ(traffic[0]["bytes"], 5);
  EXPECT_EQ(traffic[0]["source"], "cpu");
  ASSERT_THAT(memory, SizeIs(2));
  EXPECT_EQ(memory[0]["peak"], 9);
}

TEST_F(Tables, AnotherProgramInTheProcessBeginsAnew) {
  const auto path = log("a.jsonl", kProcess + kFinding +
                                       R"({"record":"process","schema":1,"pid":7,"torch":"2.12"})"
                                       "\n" +
                                       kFinding);
  EXPECT_THAT(rows(path, Table::processes), SizeIs(2));
  const auto found = rows(path, Table::findings);
  ASSERT_THAT(found, SizeIs(2));
  EXPECT_EQ(found[0]["torch"], "2.11");
  EXPECT_EQ(found[1]["torch"], "2.12");
}

TEST_F(Tables, AFindingWithoutCauseOrFingerprintGetsThem) {
  const auto sample = test::sample("private_gpt.jsonl");
  Json bare = sample.finding;
  bare.erase("cause");
  bare.erase("fingerprint");
  const auto found = rows(log("a.jsonl", sample.process.dump() + '\n' + bare.dump() + '\n'), Table::findings);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0]["fingerprint"], sample.finding["fingerprint"]);
  EXPECT_EQ(found[0]["category"], sample.finding["cause"]["category"]);
}

TEST_F(Tables, ALogIsKnownByItsFirstLineWhereverItLies) {
  const auto one = identify(log("a.jsonl", kProcess), false),
             grown = identify(log("b.jsonl", kProcess + kFinding), false);
  EXPECT_EQ(one.id, grown.id);
  EXPECT_LT(one.bytes, grown.bytes);
  EXPECT_EQ(one.date, "1970-01-02");
  EXPECT_EQ(one.host, "gpu/7");
  EXPECT_EQ(identify(one.path, true).host, "machine") << "a name that anybody could guess gives no hash";
}

TEST_F(Tables, WhatTheManifestsNameIsNotWrittenAgain) {
  const auto one = identify(log("a.jsonl", kProcess), false), copy = identify(log("b.jsonl", kProcess), false);
  const Plan first = plan({one, copy}, folder_ / "db");
  ASSERT_THAT(first.batches, SizeIs(1));
  EXPECT_EQ(first.known, 1);
  EXPECT_EQ(first.batches[0].partition, "date=1970-01-02/host=gpu%2F7");
  const fs::path logs = folder_ / "db/_logs" / first.batches[0].partition;
  fs::create_directories(logs);
  std::ofstream(logs / "x.txt") << manifest(first.batches[0], true);
  EXPECT_THAT(plan({copy}, folder_ / "db").batches, IsEmpty());
  const Plan grown = plan({identify(log("b.jsonl", kProcess + kFinding), false)}, folder_ / "db");
  ASSERT_THAT(grown.batches, SizeIs(1));
  EXPECT_NE(grown.batches[0].name, first.batches[0].name);
  EXPECT_EQ(grown.batches[0].logs[0].outgrown, one.bytes);
}

}  // namespace
}  // namespace devtrace::report::tables
