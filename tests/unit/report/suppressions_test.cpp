#include "report/log/suppressions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "finding/json.h"
#include "tests/unit/report/data.h"

namespace devtrace::report {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;
using testing::StartsWith;

bool covers(const Suppression& entry, const Json& record) {
  return entry.covers(finding::read(record));
}

Suppression entry(const std::string& line) {
  const auto all = parse_suppressions(line, "s.txt");
  EXPECT_THAT(all.complaints, SizeIs(0)) << line;
  return all.entries.empty() ? Suppression() : all.entries[0];
}

TEST(Suppressions, AreOneALineWithQuotesAndComments) {
  const auto all = parse_suppressions(
      "# why\n\n  kind=copy-mismatch kernel=\"void f<int, 4>(float*)\" reason=\"he said \\\"no\\\" \\\\\" # "
      "later\r\n\tfile=a.py "
      "expires=2026-12-31",
      "s.txt");
  ASSERT_THAT(all.complaints, SizeIs(0));
  ASSERT_THAT(all.entries, SizeIs(2));
  EXPECT_EQ(all.entries[0].kernel, "void f<int, 4>(float*)");
  EXPECT_EQ(all.entries[0].reason, "he said \"no\" \\");
  EXPECT_EQ(all.entries[0].line, 3);
  EXPECT_EQ(all.entries[1].file, "a.py");
  EXPECT_EQ(all.entries[1].line, 4);
}

TEST(Suppressions, WhatIsNotUnderstoodIsSaidAndLeftOut) {
  const auto all = parse_suppressions(
      "nonsense\nfunktion=a\nfile=\"a\nreason=all\nkind=\nkind=x expires=2026-2-1\nkind=x "
      "expires=2026-02-41\nkind=ok\n",
      "s.txt");
  EXPECT_THAT(all.complaints,
              ElementsAre(StartsWith("s.txt:1: 'nonsense' is not of the form key=value"),
                          StartsWith("s.txt:2: there is no key 'funktion'"), StartsWith("s.txt:3: the quotation mark"),
                          StartsWith("s.txt:4: no pattern: it would suppress everything"),
                          StartsWith("s.txt:5: kind= is empty"), StartsWith("s.txt:6: expires=2026-2-1"),
                          StartsWith("s.txt:7: expires=")));
  EXPECT_THAT(all.entries, SizeIs(1));
}

TEST(Suppressions, CoverWhatAllTheirPatternsMatch) {
  const auto it = test::sample("private_gpt.jsonl");
  for (const char* line :
       {"kind=refused-op", "operation=^aten::index_select$",
        "function=^EmbeddingComponent.embed$ file=embedding_component.py$", "function=^embedding$ file=functional.py",
        "module=BertModel", "module=^embeddings.word", "fingerprint=^5a5d275d57563f0e$"})
    EXPECT_TRUE(covers(entry(line), it.finding)) << line;
  for (const char* line : {"kind=copy-mismatch", "operation=^aten::index$", "kernel=a", "module=GPT2",
                           "function=^EmbeddingComponent.embed$ file=functional.py",  // of two frames
                           "kind=refused-op operation=cat"})
    EXPECT_FALSE(covers(entry(line), it.finding)) << line;
}

TEST(Suppressions, MatchNativeFramesAndKernels) {
  const Json finding = {
      {"kind", "remote-access"},
      {"launch", {{"kernel", "void add<float>(float*)"}}},
      {"native", {{{"module", "/opt/lib/libops.so"}, {"function", "ops::launch"}, {"file", "ops.cu"}}}}};
  EXPECT_TRUE(covers(entry("kernel=\"^void add<*>(\" module=^libops.so$ function=^ops:: file=ops.cu$"), finding));
  EXPECT_FALSE(covers(entry("module=opt"), finding)) << "the file's name, not its folders";
}

TEST(Suppressions, HoldUpToTheirLastDay) {
  const auto all = parse_suppressions("kind=x expires=2026-01-31\nkind=x", "s.txt");
  const Json finding = {{"kind", "x"}};
  EXPECT_EQ(all.covering(finding::read(finding), "2026-01-31"), 0u);
  EXPECT_EQ(all.covering(finding::read(finding), "2026-02-01"), 1u);
}

TEST(Suppressions, TheOfferedEntryCoversItsFinding) {
  const auto it = test::sample("private_gpt.jsonl");
  const std::string offered = suppression_entry(it.process, it.finding);
  EXPECT_EQ(
      offered,
      "kind=refused-op operation=^aten::index_select$ function=^EmbeddingComponent.embed$ file=embedding_component.py$ "
      "expires=2026-02-19 reason=\"\"");
  EXPECT_TRUE(covers(entry(offered), it.finding));
  Json native = {{"kind", "remote-access"}, {"operation", "k<a b>"}, {"fingerprint", "0123456789abcdef"}};
  EXPECT_TRUE(covers(entry(suppression_entry(Json(), native)), native)) << suppression_entry(Json(), native);
  native["native"] = {{{"module", "/app/train"}, {"function", "step(int, \"x\")"}, {"offset", "0x40"}}};
  EXPECT_TRUE(covers(entry(suppression_entry(Json(), native)), native)) << suppression_entry(Json(), native);
}

TEST(Suppressions, TheOfferedEntryIsOneLineWhateverNamesHold) {
  const auto it = test::sample("hostile.jsonl");
  const std::string offered = suppression_entry(it.process, it.finding);
  EXPECT_EQ(offered.find('\n'), offered.npos);
  EXPECT_LT(offered.size(), 3000u);
  EXPECT_THAT(parse_suppressions(offered, "s.txt").complaints, SizeIs(0));
}

TEST(Suppressions, TheOfferedEntryCoversNamesThatCannotBeWrittenDown) {
  for (const std::string file :
       {"/app/a\x1b[2Jb.py", "/app/^begin.py", "/app/end.py$", "/app/two\nlines.py", "/app/\u202e.py"}) {
    const Json finding = {{"kind", "refused-op"},
                          {"operation", "^odd$"},
                          {"python", {{{"file", file}, {"function", "\x07^step$"}, {"project", true}}}}};
    const Json process = {{"cwd", "/app"}};
    const std::string offered = suppression_entry(process, finding);
    EXPECT_TRUE(covers(entry(offered), finding)) << offered;
    Json other = finding;
    other["python"][0]["function"] = "other";
    EXPECT_FALSE(covers(entry(offered), other)) << offered;
  }
}

TEST(Suppressions, TakeAnythingForAFinding) {
  for (const Json& malformed : {Json(nullptr), Json(5), Json::array(),
                                Json({{"native", {1, nullptr}}, {"operands", {nullptr}}, {"launch", 5}})}) {
    EXPECT_FALSE(covers(entry("function=a module=b kernel=c"), malformed));
    suppression_entry(malformed, malformed);
  }
}

}  // namespace
}  // namespace devtrace::report
