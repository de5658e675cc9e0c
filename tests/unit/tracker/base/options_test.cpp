// The options, and what is said to the user.
#include "tracker/base/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <string>

#include "tracker/base/message.h"

using devtrace::parse_options;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Options, EmptyTextGivesTheTablesDefaults) {
  const auto parsed = parse_options("");
  EXPECT_THAT(parsed.complaints, IsEmpty());
  EXPECT_EQ(parsed.values.log_path, "devtrace-%p.jsonl");
  EXPECT_TRUE(parsed.values.html);
  EXPECT_EQ(parsed.values.error_exitcode, 0);
}

TEST(Options, EveryTypeIsParsed) {
  const auto parsed = parse_options("html=0:error_exitcode=23:log_path=/tmp/x:dedupe=no");
  EXPECT_THAT(parsed.complaints, IsEmpty());
  EXPECT_FALSE(parsed.values.html);
  EXPECT_FALSE(parsed.values.dedupe);
  EXPECT_EQ(parsed.values.error_exitcode, 23);
  EXPECT_EQ(parsed.values.log_path, "/tmp/x");
}

TEST(Options, AQuotedValueMayHoldAColon) {
  EXPECT_EQ(parse_options("log_path=\"a:b\":html=0").values.log_path, "a:b");
}

TEST(Options, TheLastOfTwoHolds) {
  EXPECT_EQ(parse_options("max_findings=1:max_findings=2").values.max_findings, 2);
}

struct Bad {
  const char* text;
  const char* complaint;
};
class BadOptions : public testing::TestWithParam<Bad> {};

TEST_P(BadOptions, AreOneComplaintAndTheDefaultStands) {
  const auto parsed = parse_options(GetParam().text);
  EXPECT_THAT(parsed.complaints, ElementsAre(HasSubstr(GetParam().complaint)));
  EXPECT_TRUE(parsed.values.html);
  EXPECT_EQ(parsed.values.max_findings, 1000);
  EXPECT_EQ(parsed.values.log_path, "devtrace-%p.jsonl");
}
INSTANTIATE_TEST_SUITE_P(All, BadOptions,
                         testing::Values(Bad{"htlm=0", "no option 'htlm'"}, Bad{"html", "not of the form key=value"},
                                         Bad{"html=maybe", "must be 0 or 1"}, Bad{"max_findings=-1", "whole number"},
                                         Bad{"max_findings=99999999999999999999", "whole number"},
                                         Bad{"max_findings=1x", "whole number"}, Bad{"log_path=", "must not be empty"},
                                         Bad{"=1", "no option ''"}));

TEST(Options, HelpNamesEveryOption) {
#define OPTION(type, name, default_value, description) EXPECT_THAT(devtrace::options_help(), HasSubstr("  " #name "="));
#include "tracker/base/options.inc"
#undef OPTION
}

namespace {

std::string explained(const std::string& text) {
  testing::internal::CaptureStderr();
  devtrace::explain("%s", text.c_str());
  return testing::internal::GetCapturedStderr();
}

TEST(Explain, IsOneLineWithTheProcess) {
  errno = 7;
  const std::string line = explained("a name\nof two lines\x1b[2J");
  EXPECT_THAT(line, testing::StartsWith("devtrace: ["));
  EXPECT_THAT(line, testing::EndsWith("] a name of two lines [2J\n"));
  EXPECT_EQ(errno, 7);
}

TEST(Explain, WhatIsTooLongIsCutOff) {
  const std::string line = explained(std::string(100'000, 'x'));
  EXPECT_EQ(line.size(), 1024u);
  EXPECT_THAT(line, testing::EndsWith("x\n"));
}

TEST(Warn, EscapesWhatATerminalWouldObey) {
  testing::internal::CaptureStderr();
  devtrace::warn("a path\nwith two lines, \x1b[2J, \x7f and \u009b, and an \u00e9");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "devtrace: a path\\x0awith two lines, \\x1b[2J, \\x7f and \\x9b, and an \u00e9\n");
}

}  // namespace
