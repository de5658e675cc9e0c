#include "tracker/evidence/source/source.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace {

using devtrace::evidence::Region;
using devtrace::evidence::Source;

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> lines(1);
  for (const char c : text)
    if (c == '\n')
      lines.emplace_back();
    else
      lines.back() += c;
  return lines;
}

struct Case {
  const char* text;
  int line, first;
  const char* statement;
};

constexpr Case kStatements[] = {
    {"a = 1\nb = 2\nc = 3", 2, 2, "b = 2"},
    {"def f(x):\n    return g(\n        h(x),\n        2)\ny = 1", 3, 2, "return g(\n    h(x),\n    2)"},
    {"x = (y\n     .mul(2)\n     .add(z))", 3, 1, "x = (y\n     .mul(2)\n     .add(z))"},
    {"a = b + \\\n    c\nd", 2, 1, "a = b + \\\n    c"},
    {"'''(open\n[here'''\na = b", 3, 3, "a = b"},
    {"s = '''one\ntwo(\n''' + f(\n  x)\nt", 4, 1, "s = '''one\ntwo(\n''' + f(\n  x)"},
    {"a = f(  # not closed (\n  b)\nc", 2, 1, "a = f(  # not closed (\n  b)"},
    {"a = '(' + \"['\"\nb = ')'\nc", 2, 2, "b = ')'"},
    {"a = r'\\\\'\nb = f('\\'(', 1,\n  c)", 3, 2, "b = f('\\'(', 1,\n  c)"},
    {"it's no Python\nb = (\nc)", 3, 2, "b = (\nc)"},
    {"a)\nb]\nf(\nc)", 4, 3, "f(\nc)"},
};

TEST(Source, ALineIsToldWithItsStatement) {
  for (const Case& each : kStatements) {
    const Source source(split(each.text));
    EXPECT_EQ(source.lines(Region{each.line}), each.statement) << each.text;
    EXPECT_EQ(source.first_line(Region{each.line}), each.first) << each.text;
  }
}

TEST(Source, OfALongStatementOnlyTheRegionIsTold) {
  std::string text = "rows = [\n";
  for (int row = 0; row < 30; ++row) text += "  f(" + std::to_string(row) + "),\n";
  const Source source(split(text + "]\nlast = g(\n  rows)"));
  EXPECT_EQ(source.lines(Region{5, 5}), "f(3),");
  EXPECT_EQ(source.first_line(Region{5, 5}), 5);
  EXPECT_EQ(source.lines(Region{34}), "last = g(\n  rows)");
}

struct Call {
  const char* text;
  int line, column;
  const char* whole;
};

// Python tells such a call from the method's name on.
constexpr Call kCalls[] = {
    {"x = (y\n  .mul(2)\n  .add(z))", 3, 3, "y\n  .mul(2)\n  .add(z))\n"},
    {"return (f(a)[0]\n  .add(z))", 2, 3, "f(a)[0]\n  .add(z))\n"},
    {"x = ((a + b)\n  .add(z))", 2, 3, "(a + b)\n  .add(z))\n"},
    {"x = net.of(')', [1])(2).z \\\n  .add(z)", 2, 3, "net.of(')', [1])(2).z \\\n  .add(z)\n"},
    {"x = (y  # a name\n  .add(z))", 2, 3, "add(z))\n"},
    {"x = ('y'\n  .add(z))", 2, 3, "add(z))\n"},
    {").add(z)", 1, 2, "add(z)\n"},
    {".add(z)", 1, 1, "add(z)\n"},
    {"a.add(z)", 1, 0, "a.add(z)\n"},
};

TEST(Source, WhatAMethodIsCalledOnMayStandAbove) {
  for (const Call& each : kCalls) {
    const Source source(split(each.text));
    EXPECT_EQ(source.text(source.with_receiver(Region{each.line, each.line, each.column, -1})), each.whole)
        << each.text;
  }
}

TEST(Source, AskedForWhatIsNotThereItAnswersNothing) {
  const Source source(split("a\nb"));
  for (const int line : {-1, 0, 3, 1'000'000}) {
    EXPECT_EQ(source.lines(Region{line}), "") << line;
    EXPECT_EQ(source.first_line(Region{line}), line);
  }
  EXPECT_EQ(source.lines(Region{2, 9}), "b");
  EXPECT_EQ(Source(std::vector<std::string>()).lines(Region{1}), "");
}

}  // namespace
