#include "report/text/time_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/text/markdown.h"
#include "report/text/process_facts.h"
#include "tests/unit/report/data.h"

namespace devtrace::report {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TEST(TimeLine, IsInOrderAndSaysWhereWhatHappened) {
  auto it = test::sample("private_gpt.jsonl");
  it.finding["device_changes"] = {
      {{"time", 1763690405.0},
       {"device", "cuda:1"},
       {"python",
        {{{"file", "/home/ada/private-gpt/main.py"}, {"line", 3}, {"function", "setup"}, {"project", true}}}}},
      {{"device", "cuda:0"}}};
  std::vector<std::string> texts;
  for (const Moment& each : time_line(it.finding, "/home/ada/private-gpt")) texts.push_back(each.what);
  EXPECT_THAT(texts,
              ElementsAre("embeddings.word_embeddings.weight created on cpu", "cuda:1 made the current device",
                          "embeddings.word_embeddings.weight moved cpu → cuda:1", "input_ids created on cpu",
                          "input_ids moved cpu → cuda:0", "aten::index_select was given tensors on cuda:1 and cuda:0"))
      << "what has no time has no place here";
  EXPECT_EQ(time_line(it.finding, "/home/ada/private-gpt")[1].place, "setup (main.py:3)");
  EXPECT_THAT(markdown(it.process, it.finding),
              HasSubstr("+4.750 s  cuda:1 made the current device  setup (main.py:3)"));
}

TEST(TimeLine, SaysTheThreadWhereThereAreSeveral) {
  auto it = test::sample("private_gpt.jsonl");
  EXPECT_THAT(markdown(it.process, it.finding), Not(HasSubstr("s  thread ")));
  it.finding["operands"][0]["moved"]["thread"] = 99;
  EXPECT_THAT(markdown(it.process, it.finding), HasSubstr("s  thread 99  input_ids moved cpu → cuda:0"));
}

TEST(Caveats, AreSaidOnceEach) {
  const Json end = {{"record", "end"}, {"dropped", 0}, {"exit", 1}};
  EXPECT_THAT(caveats(Json::object(), end), IsEmpty());
  EXPECT_THAT(caveats({{"rehearsal", true}, {"redacted", true}}, {{"record", "end"}, {"dropped", 3}}),
              ElementsAre(HasSubstr("simulated"), HasSubstr("3 more findings"), HasSubstr("Redacted")));
  EXPECT_THAT(caveats(Json::object(), Json::object()), ElementsAre(HasSubstr("killed, or is still running")));
}

TEST(ProcessFacts, AreLinesOfTextWhateverTheyHold) {
  const auto it = test::sample("private_gpt.jsonl");
  EXPECT_THAT(process_text(it.process, {{"record", "end"}, {"exit", 3}}),
              testing::AllOf(HasSubstr("  devices       2 NVIDIA H100 80GB HBM3\n"), HasSubstr("  exit code     3\n")));
  const auto hostile = test::sample("hostile.jsonl");
  for (const std::string& texts : {process_text(hostile.process, {}), process_markdown(hostile.process, {})})
    for (const char c : texts) EXPECT_FALSE((c >= 0 && c < 0x20 && c != '\n') || c == 0x7F) << int(c);
}

}  // namespace
}  // namespace devtrace::report
