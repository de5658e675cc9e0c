#include "report/base/escaping.h"

#include <gtest/gtest.h>

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
