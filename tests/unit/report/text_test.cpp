#include "report/text/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/text/markdown.h"
#include "report/text/process_facts.h"
#include "tests/unit/report/data.h"

namespace devtrace::report {
namespace {

using testing::Each;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST(Text, SaysWhatWhereWhenceAndWhatToChange) {
  const auto it = test::sample("private_gpt.jsonl");
  const std::string report = text(it.process, it.finding, false, "devtrace-4242.html");
  const auto lines = test::lines_of(report);
  EXPECT_LE(lines.size(), 25u);
  EXPECT_THAT(lines.front(),
              StartsWith("==4242==devtrace: refused-op: aten::index_select was given tensors on cuda:1 and cuda:0"));
  for (const char* part :
       {"input_ids", "embeddings.word_embeddings.weight", "at EmbeddingComponent.embed (embedding_component.py:41)",
        "tokens = self.model(**encoded).last_hidden_state",
        "input_ids moved cpu → cuda:0 in EmbeddingComponent.embed (embedding_component.py:40)",
        "encoded = {key: value.to(self.model.device) for key, value in batch.items()}", "rehearsal",
        "devtrace-4242.html"}) {
    EXPECT_THAT(report, HasSubstr(part));
  }
  EXPECT_THAT(lines.back(), StartsWith("SUMMARY: devtrace: refused-op embedding_component.py:41 in "
                                       "EmbeddingComponent.embed: input_ids on cuda:0, "));
}

TEST(Text, HasEscapeCodesOnlyWhenAsked) {
  const auto it = test::sample("private_gpt.jsonl");
  EXPECT_THAT(text(it.process, it.finding, false, ""), Not(HasSubstr("\033")));
  EXPECT_THAT(text(it.process, it.finding, true, ""), HasSubstr("\033["));
}

TEST(Text, ObeysNothingThatAProgramPutsIntoNames) {
  const auto it = test::sample("hostile.jsonl");
  const std::string report = text(it.process, it.finding, false, "x\033]0;title\a.html");
  for (const char c : report) EXPECT_FALSE((c >= 0 && c < 0x20 && c != '\n') || c == 0x7F) << int(c);
  EXPECT_THAT(report, Not(HasSubstr("\u202e")));
  EXPECT_LE(test::lines_of(report).size(), 40u);
  EXPECT_LE(report.size(), 8000u) << "a name of 28,000 characters";
}

TEST(Text, ANoteIsCalledOne) {
  auto it = test::sample("private_gpt.jsonl");
  EXPECT_THAT(text(it.process, it.finding, false, ""), Not(HasSubstr("(note)")));
  it.finding["severity"] = "note";
  const std::string report = text(it.process, it.finding, false, "");
  EXPECT_THAT(report, HasSubstr("devtrace: refused-op (note): "));
  EXPECT_THAT(report, HasSubstr("SUMMARY: devtrace: refused-op (note) "));
  EXPECT_THAT(markdown(it.process, it.finding), HasSubstr("*A note, not a fault.*"));
}

TEST(Text, SaysWhatWasThereBeforeDevtrace) {
  auto it = test::sample("private_gpt.jsonl");
  EXPECT_THAT(text(it.process, it.finding, false, ""), Not(HasSubstr("attached")));
  for (Json& operand : it.finding["operands"]) {
    operand.erase("created");
    operand.erase("moved");
    operand.erase("computed_from");
    operand["before_attach"] = true;
  }
  EXPECT_THAT(text(it.process, it.finding, false, ""), HasSubstr("input_ids was there before devtrace was attached"));
  EXPECT_THAT(markdown(it.process, it.finding), HasSubstr("| before devtrace was attached |"));
  for (Json& operand : it.finding["operands"]) operand["moved"] = {{"from", "cuda:0"}, {"to", "cuda:1"}};
  EXPECT_THAT(text(it.process, it.finding, false, ""), HasSubstr("created before devtrace was attached"));
  it.process["attached"] = 1700000000.5;
  EXPECT_THAT(process_text(it.process, {}), HasSubstr("what was before is not known"));
  EXPECT_THAT(process_markdown(it.process, {}), HasSubstr("attached"));
}

TEST(Text, SaysWhatIsNotKnown) {
  const std::string report =
      text(Json::object(), Json({{"record", "finding"}, {"kind", "refused-op"}, {"message", "Expected all tensors"}}),
           false, "");
  EXPECT_THAT(report, HasSubstr("no Python frame could be read"));
  EXPECT_THAT(report, HasSubstr("Expected all tensors"));
  EXPECT_THAT(report, HasSubstr("SUMMARY: devtrace: refused-op"));
}

TEST(Text, OfAProgramWithoutPythonSaysTheNativePlace) {
  using namespace std::string_literals;
  const auto frame = [](const char* module, const char* function, const char* file, int line) {
    Json one = {{"module", module}, {"function", function}, {"offset", "0x40"}};
    if (*file) one.update({{"file", file}, {"line", line}});
    return one;
  };
  Json finding = {{"kind", "remote-access"}, {"python", Json::array()}};
  finding["native"] = {frame("/usr/lib/libcudart.so.13", "cudaLaunchKernel", "", 0),
                       frame("/app/libops.so", "launch", "", 0), frame("/app/train", "step", "/app/train.cpp", 12),
                       frame("/app/train", "main", "/app/train.cpp", 40)};
  const auto says = [&](const char* place, const char* summary = nullptr) {
    const std::string report = text(Json::object(), finding, false, "");
    EXPECT_NE(report.find("at "s + place), report.npos) << report;
    EXPECT_NE(report.find("SUMMARY: devtrace: remote-access "s + (summary ? summary : place)), report.npos) << report;
    EXPECT_NE(markdown(Json::object(), finding).find("At `"s + place + "`"), std::string::npos);
  };
  says("step (/app/train.cpp:12)", "/app/train.cpp:12 in step");
  // Which frames are the user's own is known where the kernel's stub and headers are told from them.
  finding["native"][3]["project"] = true;
  says("main (/app/train.cpp:40)", "/app/train.cpp:40 in main");
  finding["native"].erase(2);
  finding["native"].erase(2);
  says("launch (libops.so+0x40)");
  finding["native"].erase(1);
  says("cudaLaunchKernel (libcudart.so.13+0x40)");
}

TEST(Text, OfAKernelSaysParametersAndWhereTheirMemoryCameFrom) {
  const auto frame = [](const char* function, int line) {
    return Json{{"module", "/app/train"}, {"function", function}, {"file", "/app/train.cpp"}, {"line", line},
                {"project", true},        {"offset", "0x40"},     {"source", "call();"}};
  };
  const auto operand = [&](int parameter, const char* device) {
    return Json{{"role", "parameter"},
                {"parameter", parameter},
                {"device", device},
                {"bytes", 4096},
                {"created",
                 {{"device", device}, {"call", "cudaMalloc"}, {"native", {frame("grid(int)", 9), frame("main", 30)}}}}};
  };
  Json finding = {{"kind", "remote-access"},
                  {"operation", "add"},
                  {"devices", {"cuda:0", "cuda:1"}},
                  {"native", {frame("step(float*)", 12), frame("main", 40)}},
                  {"operands", {operand(0, "cuda:0"), operand(1, "cuda:1"), operand(2, "cuda:1")}}};
  finding["operands"][1]["type"] = "float*";
  finding["operands"][2].update({{"name", "edges"}, {"type", "float const*"}, {"parameter_name", "x"}});
  const Json process = {{"cwd", "/app"}};
  const std::string report = text(process, finding, false, "");
  for (const char* part : {"parameter 0 (pointer)", "parameter 1 (float*)", "edges", "parameter 2: float const* x",
                           "4.0 KiB", "at step (train.cpp:12)", "created on cuda:1 by cudaMalloc in grid (train.cpp:9)",
                           "called by main (train.cpp:30)", "train.cpp:12 in step: parameter 0 (pointer) on cuda:0"})
    EXPECT_THAT(report, HasSubstr(part));
  EXPECT_EQ(report.find("a tensor"), report.npos);
  EXPECT_THAT(markdown(process, finding), HasSubstr("grid (train.cpp:9)"));
  // Of a copy, or wherever no parameter is known.
  finding["operands"][0].erase("parameter");
  EXPECT_THAT(text(process, finding, false, ""), HasSubstr("memory of 4.0 KiB from cudaMalloc at train.cpp:9"));
}

TEST(Text, TakesAnythingForARecord) {
  for (const Json& odd : {Json(nullptr), Json(5), Json::array(),
                          Json({{"operands", {1, nullptr}}, {"python", {nullptr, 5}}, {"cause", {{"because", 5}}}})}) {
    EXPECT_THAT(text(odd, odd, true, ""), HasSubstr("SUMMARY"));
    EXPECT_THAT(markdown(odd, odd), HasSubstr("###"));
  }
}

TEST(Markdown, HoldsTheAnswerAndTheStacks) {
  const auto it = test::sample("private_gpt.jsonl");
  const std::string report = markdown(it.process, it.finding);
  for (const char* part :
       {"### aten::index\\_select was given tensors on cuda:1 and cuda:0", "| `input_ids` | `cuda:0` |",
        "**Fix** at `embedding_component.py:40`", "<summary>Failing call</summary>",
        "> EmbeddingComponent.embed (embedding_component.py:41)", "devtrace fingerprint `5a5d275d57563f0e`"}) {
    EXPECT_THAT(report, HasSubstr(part));
  }
}

TEST(Markdown, SaysAFixWithoutALine) {
  const Json finding = {{"cause", {{"fix", "rng = torch.Generator()"}}}};
  EXPECT_THAT(markdown(Json::object(), finding), HasSubstr("**Fix**:\n\n```python\nrng = torch.Generator()\n```"));
}

TEST(Markdown, KeepsHostileTextInsideItsFences) {
  Json finding = {
      {"kind", "refused-op"},
      {"operation", "<img src=x> [a](http://b) @all"},
      {"operands", {{{"name", "a`b|c"}, {"device", "cpu"}}}},
      {"python",
       {{{"file", "f.py"}, {"line", 1}, {"function", "f"}, {"source", "```\n# heading"}, {"project", true}}}}};
  const std::string report = markdown(Json::object(), finding);
  EXPECT_THAT(report, HasSubstr("### \\<img src=x\\> \\[a\\](http://b) \\@all"));
  EXPECT_THAT(report, HasSubstr("``a`b\\|c``"));
  EXPECT_THAT(report, HasSubstr("````python\n```\n# heading\n````"));
}

}  // namespace
}  // namespace devtrace::report
