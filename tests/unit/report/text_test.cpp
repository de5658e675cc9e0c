// A report as text, Markdown and page.
#include "report/text/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/text.h"
#include "report/html/html.h"
#include "report/text/markdown.h"
#include "report/text/process_facts.h"
#include "report/text/time_line.h"
#include "tests/unit/report/data.h"

namespace devtrace::report {
namespace {

using testing::Each;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST(Text, HasNoMoreThan25LinesHoweverManyEditsThereAre) {
  auto it = test::sample("private_gpt.jsonl");
  for (int line = 50; line < 58; ++line)
    it.finding["cause"]["also"].push_back({{"file", "/p/losses.py"}, {"line", line}, {"fix", "b = b.to(x.device)"}});
  const std::string report = text(it.process, it.finding, false, {.log = "devtrace-4242.jsonl", .html = ""});
  EXPECT_LE(test::lines_of(report).size(), 25u);
  EXPECT_THAT(report, HasSubstr("and /p/losses.py:50\n        b = b.to(x.device)\n"));
  EXPECT_THAT(report, HasSubstr("/p/losses.py:56, /p/losses.py:57: devtrace report shows what they should say\n"));
}

TEST(Text, SaysWhatWhereWhenceAndWhatToChange) {
  const auto it = test::sample("private_gpt.jsonl");
  const std::string report =
      text(it.process, it.finding, false, {.log = "devtrace-4242.jsonl", .html = "devtrace-4242.html"});
  const auto lines = test::lines_of(report);
  EXPECT_LE(lines.size(), 25u);
  EXPECT_THAT(lines.front(),
              StartsWith("==4242==devtrace: refused-op: aten::index_select was given tensors on cuda:1 and cuda:0"));
  for (const char* part :
       {"input_ids", "embeddings.word_embeddings.weight", "at EmbeddingComponent.embed (embedding_component.py:41)",
        "tokens = self.model(**encoded).last_hidden_state",
        "input_ids moved cpu → cuda:0 in EmbeddingComponent.embed (embedding_component.py:40)",
        "encoded = {key: value.to(self.model.device) for key, value in batch.items()}", "rehearsal",
        "next: devtrace fix devtrace-4242.jsonl", "report: devtrace-4242.html"}) {
    EXPECT_THAT(report, HasSubstr(part));
  }
  EXPECT_THAT(lines.back(), StartsWith("SUMMARY: devtrace: refused-op embedding_component.py:41 in "
                                       "EmbeddingComponent.embed: input_ids on cuda:0, "));
}

TEST(Text, SaysOtherLinesWithTheSameMistake) {
  auto it = test::sample("private_gpt.jsonl");
  it.finding["cause"]["also"] = {{{"file", "/p/losses.py"}, {"line", 9}, {"fix", "b = b.to(x.device)\nreturn b"}}};
  const std::string report = text(it.process, it.finding, false);
  EXPECT_THAT(report, HasSubstr("      and /p/losses.py:9\n        b = b.to(x.device)\n        return b\n"));
  EXPECT_THAT(markdown(it.process, it.finding),
              HasSubstr("and at `/p/losses.py:9`:\n\n```python\nb = b.to(x.device)\n"));
}

TEST(Text, SummarisesManyOperandsByThreeTheOddOneFirst) {
  Json finding = {{"kind", "refused-op"}, {"operation", "aten::cat"}, {"operands", Json::array()}};
  for (const char* name : {"a", "b", "c", "d", "e", "f", "g"})
    finding["operands"].push_back({{"name", name}, {"device", *name == 'f' ? "cpu" : "cuda:0"}, {"dtype", "float32"}});
  const auto last = [&] { return test::lines_of(text(Json::object(), finding, false)).back(); };
  EXPECT_THAT(last(), testing::EndsWith(": f on cpu, a on cuda:0, b on cuda:0 and 4 more"));
  finding["operands"][1]["odd"] = true;
  EXPECT_THAT(last(), testing::EndsWith(": b on cuda:0, f on cpu, a on cuda:0 and 4 more"));
  finding["operands"][1].erase("odd");
  const std::string report = text(Json::object(), finding, false);
  EXPECT_LT(report.find("    f  "), report.find("    a  "));
  EXPECT_THAT(report, HasSubstr("    and 4 more"));
}

Json frame(const char* function, int line) {
  return {
      {"file", "/p/model.py"}, {"line", line}, {"function", function}, {"project", true}, {"source", "    a = b\n"}};
}

TEST(Text, TellsOnceWhatIsTheSameOfSeveralOperands) {
  Json finding = {{"kind", "refused-op"}, {"operation", "aten::addmm"}, {"python", {frame("forward", 9)}}};
  const auto operand = [&](const char* name, const char* device, int line, int within) {
    Json library = {{"file", "/lib/linear.py"}, {"line", within}, {"function", "__init__"}};
    finding["operands"].push_back({{"name", name}, {"device", device}});
    finding["operands"].back()["created"] = {{"device", device}, {"python", {library, frame("make", line)}}};
  };
  operand("x", "cpu", 3, 1);
  operand("weight", "cuda:0", 5, 112);
  operand("bias", "cuda:0", 5, 114);
  finding["operands"][0]["lineage"] = {{{"what", "constructed"}, {"line", frame("make", 3)}},
                                       {{"what", "returned"}, {"line", frame("main", 7)}}};
  const std::string report = text({{"cwd", "/p"}}, finding, false);
  EXPECT_THAT(report, HasSubstr("\n  x created on cpu in make (model.py:3)\n        a = b\n"
                                "     returned to main (model.py:7)\n        a = b\n"
                                "  weight, bias created on cuda:0 in make (model.py:5)\n        a = b\n"));
  EXPECT_THAT(report, Not(HasSubstr("constructed")));
}

TEST(Text, OfALongHistoryTheFirstOperandsIsToldWhole) {
  Json finding = {{"kind", "refused-op"}, {"operation", "aten::add"}, {"python", {frame("forward", 9)}}};
  for (const char* name : {"a", "b"}) {
    Json operand = {{"name", name}, {"device", name}, {"created", {{"device", name}, {"python", {frame(name, 1)}}}}};
    for (int line = 2; line < 6; ++line)
      operand["lineage"].push_back({{"what", "assigned"}, {"line", frame(name, line)}});
    finding["operands"].push_back(operand);
  }
  const std::string report = text({{"cwd", "/p"}}, finding, false);
  EXPECT_LE(test::lines_of(report).size(), 25u);
  EXPECT_THAT(report, HasSubstr("assigned in a (model.py:5)"));
  EXPECT_THAT(report, HasSubstr("b created on b in b (model.py:1)"));
  EXPECT_THAT(report, Not(HasSubstr("assigned in b")));
}

TEST(Text, HasEscapeCodesOnlyWhenAsked) {
  const auto it = test::sample("private_gpt.jsonl");
  EXPECT_THAT(text(it.process, it.finding, false), Not(HasSubstr("\033")));
  EXPECT_THAT(text(it.process, it.finding, true), HasSubstr("\033["));
}

TEST(Text, ObeysNothingThatAProgramPutsIntoNames) {
  const auto it = test::sample("hostile.jsonl");
  const std::string report = text(it.process, it.finding, false, {.log = "", .html = "x\033]0;title\a.html"});
  for (const char c : report) EXPECT_FALSE((c >= 0 && c < 0x20 && c != '\n') || c == 0x7F) << int(c);
  EXPECT_THAT(report, Not(HasSubstr("\u202e")));
  EXPECT_LE(test::lines_of(report).size(), 40u);
  EXPECT_LE(report.size(), 8000u) << "a name of 28,000 characters";
}

TEST(Text, ANoteIsCalledOne) {
  auto it = test::sample("private_gpt.jsonl");
  EXPECT_THAT(text(it.process, it.finding, false), Not(HasSubstr("(note)")));
  it.finding["severity"] = "note";
  const std::string report = text(it.process, it.finding, false);
  EXPECT_THAT(report, HasSubstr("devtrace: refused-op (note): "));
  EXPECT_THAT(report, HasSubstr("SUMMARY: devtrace: refused-op (note) "));
  EXPECT_THAT(markdown(it.process, it.finding), HasSubstr("*A note, not a fault.*"));
}

TEST(Text, SaysWhatWasThereBeforeDevtrace) {
  auto it = test::sample("private_gpt.jsonl");
  EXPECT_THAT(text(it.process, it.finding, false), Not(HasSubstr("attached")));
  for (Json& operand : it.finding["operands"]) {
    operand.erase("created");
    operand.erase("moved");
    operand.erase("computed_from");
    operand["before_attach"] = true;
  }
  EXPECT_THAT(text(it.process, it.finding, false), HasSubstr("input_ids was there before devtrace was attached"));
  EXPECT_THAT(markdown(it.process, it.finding), HasSubstr("| before devtrace was attached |"));
  for (Json& operand : it.finding["operands"]) operand["moved"] = {{"from", "cuda:0"}, {"to", "cuda:1"}};
  EXPECT_THAT(text(it.process, it.finding, false), HasSubstr("created before devtrace was attached"));
  it.process["attached"] = 1700000000.5;
  EXPECT_THAT(process_text(it.process, {}), HasSubstr("what was before is not known"));
  EXPECT_THAT(process_markdown(it.process, {}), HasSubstr("attached"));
}

TEST(Text, SaysWhatIsNotKnown) {
  const std::string report =
      text(Json::object(), Json({{"record", "finding"}, {"kind", "refused-op"}, {"message", "Expected all tensors"}}),
           false);
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
    const std::string report = text(Json::object(), finding, false);
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
  const std::string report = text(process, finding, false);
  for (const char* part : {"parameter 0 (pointer)", "parameter 1 (float*)", "edges", "parameter 2: float const* x",
                           "4.0 KiB", "at step (train.cpp:12)", "created on cuda:1 by cudaMalloc in grid (train.cpp:9)",
                           "called by main (train.cpp:30)", "train.cpp:12 in step: parameter 0 (pointer) on cuda:0"})
    EXPECT_THAT(report, HasSubstr(part));
  EXPECT_EQ(report.find("a tensor"), report.npos);
  EXPECT_THAT(markdown(process, finding), HasSubstr("grid (train.cpp:9)"));
  // Of a copy, or wherever no parameter is known.
  finding["operands"][0].erase("parameter");
  EXPECT_THAT(text(process, finding, false), HasSubstr("memory of 4.0 KiB from cudaMalloc at train.cpp:9"));
}

TEST(Text, TakesAnythingForARecord) {
  for (const Json& malformed :
       {Json(nullptr), Json(5), Json::array(),
        Json({{"operands", {1, nullptr}}, {"python", {nullptr, 5}}, {"cause", {{"because", 5}}}})}) {
    EXPECT_THAT(text(malformed, malformed, true), HasSubstr("SUMMARY"));
    EXPECT_THAT(markdown(malformed, malformed), HasSubstr("###"));
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
  EXPECT_THAT(report, HasSubstr("### \\<img src=x\\> \\[a\\](http:\u200b//b) \\@\u200ball"));
  EXPECT_THAT(report, HasSubstr("``a`b\\|c``"));
  EXPECT_THAT(report, HasSubstr("````python\n```\n# heading\n````"));
}

}  // namespace
}  // namespace devtrace::report

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

namespace devtrace::report {
namespace {

TEST(ValidUtf8, KeepsWhatIsWellFormedAndReplacesTheRest) {
  EXPECT_EQ(valid_utf8("h\u00e9 \u2026 \U0001F600"), "h\u00e9 \u2026 \U0001F600");
  EXPECT_EQ(valid_utf8("a\xFF"
                       "b"),
            "a\uFFFDb");
  EXPECT_EQ(valid_utf8("\xC0\x80"), "\uFFFD\uFFFD") << "overlong";
  EXPECT_EQ(valid_utf8("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD") << "a surrogate";
  EXPECT_EQ(valid_utf8("\xE2\x80"), "\uFFFD\uFFFD") << "cut off";
}

TEST(Printable, ShowsControlCharactersInsteadOfObeyingThem) {
  EXPECT_EQ(printable("\x1b[2Jx\r\n"), "\\x1b[2Jx\\x0d\\x0a");
  EXPECT_EQ(printable("a\nb", true), "a\nb");
  EXPECT_EQ(printable("\u202egnp.exe"), "\\u202egnp.exe");
  EXPECT_EQ(printable("\u0085"), "\\x85");
}

TEST(ScriptEscaped, LeavesNothingThatEndsTheElement) {
  const std::string out = script_escaped("</script><!--&\u2028\u2029\u2026");
  EXPECT_EQ(out, "\\u003c/script\\u003e\\u003c!--\\u0026\\u2028\\u2029\u2026");
}

TEST(HtmlEscaped, EscapesQuotesToo) {
  EXPECT_EQ(html_escaped("<a b='\"&'>"), "&lt;a b=&#39;&quot;&amp;&#39;&gt;");
}

TEST(Shortened, KeepsBothEndsAndCountsCharacters) {
  EXPECT_EQ(shortened("abcdefghij", 7), "abc…hij");
  EXPECT_EQ(shortened("ééééééé", 7), "ééééééé");
  EXPECT_EQ(shortened("éééééééé", 7), "ééé…ééé");
  EXPECT_EQ(shortened("", 7), "");
}

TEST(Dedented, TakesTheFirstLinesIndentation) {
  EXPECT_EQ(dedented("    f(\n        x,\n    )  "), "f(\n    x,\n)");
  EXPECT_EQ(dedented("    f(\n  x)"), "f(\nx)");
}

}  // namespace
}  // namespace devtrace::report

namespace devtrace::report {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size()) ++found;
  return found;
}

TEST(HtmlHead, IsAPageWithTheProcessInIt) {
  const auto it = test::sample("private_gpt.jsonl");
  const std::string head = html_head(it.process);
  EXPECT_THAT(head, StartsWith("<!doctype html>"));
  EXPECT_THAT(head, HasSubstr("<title>devtrace: python private_gpt.py</title>"));
  EXPECT_THAT(head, Not(HasSubstr("{{")));
  EXPECT_THAT(head, HasSubstr(R"(<script type="application/json" class="record">{"record":"process")"));
  EXPECT_THAT(head, EndsWith("</script>\n"));
  EXPECT_EQ(count(head, "http://"), count(head, "\"http://www.w3.org/2000/svg\""))
      << "the name of a language, no address";
  EXPECT_THAT(head, Not(HasSubstr("https://")));
}

void erase_shown(Json& value) {
  if (value.is_object()) value.erase("shown");
  if (value.is_structured())
    for (Json& each : value) erase_shown(each);
}

TEST(HtmlFinding, IsOneElementAndItsTextForBrowsersWithoutScripts) {
  const auto it = test::sample("private_gpt.jsonl");
  const std::string html = html_finding(it.process, it.finding);
  EXPECT_EQ(count(html, "<script"), 1u);
  EXPECT_THAT(html, HasSubstr("<noscript><pre>==4242==devtrace: refused-op"));
  const size_t begin = html.find('>') + 1;
  Json record = Json::parse(html.substr(begin, html.find("</script>") - begin));
  EXPECT_EQ(record.at("shown").at("headline"), "aten::index_select was given tensors on cuda:1 and cuda:0");
  const Json& operand = record.at("operands")[0];
  EXPECT_EQ(operand.at("shown").at("extent"), "int64 [8, 37]");
  const Json comprehension = {
      {"known", true}, {"at", "embedding_component.py:40"}, {"function", "EmbeddingComponent.embed"}};
  EXPECT_EQ(operand.at("moved").at("python")[0].at("shown"), comprehension);
  erase_shown(record);
  EXPECT_EQ(record, it.finding);
}

TEST(HtmlFinding, LetsNothingOutOfItsElement) {
  const auto it = test::sample("hostile.jsonl");
  const std::string page = html_head(it.process) + html_finding(it.process, it.finding);
  const std::string honest = html_head(Json::object()) + html_finding(Json::object(), Json::object());
  EXPECT_EQ(count(page, "<script"), count(honest, "<script"));
  EXPECT_EQ(count(page, "</script"), count(honest, "</script"));
  EXPECT_EQ(count(page, "<!--"), count(honest, "<!--"));
  EXPECT_EQ(count(page, "<b onmouseover"), 0u);
}

TEST(HtmlRecord, ReplacesBytesThatAreNoText) {
  EXPECT_THAT(html_record("{\"record\":\"x\",\"y\":\"\xFF\"}\n"), HasSubstr("\"y\":\"\uFFFD\"}</script>\n"));
}

TEST(JsonLine, IsOneLineOfValidJsonWhateverTheBytes) {
  const std::string line = json_line({{"name", "a\xFF\n"}});
  EXPECT_EQ(count(line, "\n"), 1u);
  EXPECT_EQ(Json::parse(line).at("name"), "a\uFFFD\n");
}

}  // namespace
}  // namespace devtrace::report
