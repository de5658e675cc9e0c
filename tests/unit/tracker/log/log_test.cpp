// Symbols that are missing, in the log.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "tracker/interface/platform.h"
#include "tracker/log/missing_symbols.h"

namespace devtrace::log {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

std::vector<MissingSymbol> answer;

class MissingSymbols : public testing::Test {
 protected:
  void SetUp() override {
    Platform answers = before_;
    answers.missing_symbols = [] { return answer; };
    set_platform(answers);
  }
  void TearDown() override { set_platform(before_); }

 private:
  const Platform before_ = platform();
};

std::string printed_for(const std::string& torch) {
  testing::internal::CaptureStderr();
  tell_missing_symbols(missing_symbols(), torch);
  return testing::internal::GetCapturedStderr();
}

// One test, as a process tells it once.
TEST_F(MissingSymbols, AreToldOnceInAProcessAndTheChildrenThatItForks) {
  answer = {};
  EXPECT_THAT(printed_for("2.16.0"), IsEmpty());
  answer = {{"libc10.so", "_ZN3c1022memoryProfilingEnabledEv", "this is not known"},
            {"libtorch_python.so", "THPVariableClass", "that is not found"},
            {"libtorch_python.so", "ParameterClass", "that is not found"}};
  EXPECT_THAT(printed_for("2.16.0"),
              HasSubstr("PyTorch 2.16.0 has no c10::memoryProfilingEnabled: this is not known; no "
                        "THPVariableClass, ParameterClass: that is not found. devtrace "));
  EXPECT_THAT(printed_for("2.16.0"), IsEmpty());
  const pid_t child = ::fork();
  if (child == 0) ::_exit(printed_for("2.16.0").empty() ? 0 : 1);
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST_F(MissingSymbols, AreInTheLogWithTheirLibraryAndEffect) {
  answer = {{"libc10.so", "_ZN3c1022memoryProfilingEnabledEv", "this is not known"}};
  EXPECT_EQ(missing_symbols().dump(),
            R"([{"library":"libc10.so","symbol":"_ZN3c1022memoryProfilingEnabledEv","effect":"this is not known"}])");
}

}  // namespace
}  // namespace devtrace::log
