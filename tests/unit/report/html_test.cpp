#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/report/data.h"

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

TEST(HtmlFinding, IsOneElementAndItsTextForBrowsersWithoutScripts) {
  const auto it = test::sample("private_gpt.jsonl");
  const std::string html = html_finding(it.process, it.finding);
  EXPECT_EQ(count(html, "<script"), 1u);
  EXPECT_THAT(html, HasSubstr("<noscript><pre>==4242==devtrace: refused-op"));
  const size_t begin = html.find('>') + 1;
  const Json record = Json::parse(html.substr(begin, html.find("</script>") - begin));
  EXPECT_EQ(record.at("shown").at("headline"), "aten::index_select was given tensors on cuda:1 and cuda:0");
  EXPECT_EQ(record.at("operands"), it.finding.at("operands"));
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
