#include "tracker/base/message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <string>

using testing::EndsWith;
using testing::StartsWith;

namespace {

std::string told(const std::string& text) {
  testing::internal::CaptureStderr();
  devtrace::explain("%s", text.c_str());
  return testing::internal::GetCapturedStderr();
}

TEST(Explain, IsOneLineWithTheProcess) {
  errno = 7;
  const std::string line = told("a name\nof two lines\x1b[2J");
  EXPECT_THAT(line, StartsWith("devtrace: ["));
  EXPECT_THAT(line, EndsWith("] a name of two lines [2J\n"));
  EXPECT_EQ(errno, 7);
}

TEST(Explain, WhatIsTooLongIsCutOff) {
  const std::string line = told(std::string(100'000, 'x'));
  EXPECT_EQ(line.size(), 1024u);
  EXPECT_THAT(line, EndsWith("x\n"));
}

TEST(Say, EscapesWhatATerminalWouldObey) {
  testing::internal::CaptureStderr();
  devtrace::say("a path\nwith two lines, \x1b[2J, \x7f and \u009b, and an \u00e9");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "devtrace: a path\\x0awith two lines, \\x1b[2J, \\x7f and \\x9b, and an \u00e9\n");
}

}  // namespace
