// Names in the log: kernels by their stubs, symbols that are missing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "tracker/interface/platform.h"
#include "tracker/log/kernel_stub.h"
#include "tracker/log/missing_symbols.h"

namespace devtrace::log {
namespace {

constexpr const char* kKernel = "void mine::add<float>(float*, float const*)";

stacks::NativeFrame frame(const char* function, bool inlined = false) {
  stacks::NativeFrame frame;
  frame.function = function;
  frame.inlined = inlined;
  return frame;
}

TEST(KernelStub, HasTheKernelsName) {
  EXPECT_EQ(kernel_stub({frame("__device_stub__Z3add(float*)"), frame(kKernel), frame("main")}, kKernel), 1u);
  EXPECT_EQ(kernel_stub({frame("main")}, kKernel), std::nullopt);
  EXPECT_EQ(kernel_stub({frame("main")}, ""), std::nullopt);
  EXPECT_EQ(kernel_stub({}, kKernel), std::nullopt);
}

TEST(KernelStub, ThatWasInlinedHasANameAlone) {
  EXPECT_EQ(kernel_stub({frame("__wrapper__device_stub_add<float>", true), frame("add<float>", true), frame("main")},
                        kKernel),
            1u);
}

TEST(KernelStub, OfALambdaHasAnotherTypeOnTheHost) {
  EXPECT_EQ(
      kernel_stub({frame("void (anonymous namespace)::__wrapper__device_stub_each<__nv_dl_wrapper_t<int> >(int&)"),
                   frame("void (anonymous namespace)::each<__nv_dl_wrapper_t<int> >(int, "
                         "__nv_dl_wrapper_t<int>)"),
                   frame("main")},
                  "void (anonymous namespace)::each<f(int)::{lambda(int)#1}>(int, f(int)::{lambda(int)#1})"),
      1u);
}

TEST(KernelStub, IsNoFunctionOfTheProgramsThatIsCalledAsTheKernel) {
  EXPECT_EQ(kernel_stub({frame("__device_stub__Z3add(float*)"), frame("mine::add(Tensor&)"), frame("main")}, kKernel),
            std::nullopt);
  EXPECT_EQ(kernel_stub({frame("__device_stub__Z3add(float*)"), frame(kKernel), frame("mine::add(Tensor&)")}, kKernel),
            1u);
  EXPECT_EQ(kernel_stub({frame("step(int)"), frame("add", true), frame("main")}, kKernel), std::nullopt);
}

}  // namespace
}  // namespace devtrace::log

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

std::string told(const std::string& torch) {
  testing::internal::CaptureStderr();
  tell_missing_symbols(missing_symbols(), torch);
  return testing::internal::GetCapturedStderr();
}

// One test, as a process tells it once.
TEST_F(MissingSymbols, AreToldOnceInAProcessAndTheChildrenThatItForks) {
  answer = {};
  EXPECT_THAT(told("2.16.0"), IsEmpty());
  answer = {{"libc10.so", "_ZN3c1022memoryProfilingEnabledEv", "this is not known"},
            {"libtorch_python.so", "THPVariableClass", "that is not found"},
            {"libtorch_python.so", "ParameterClass", "that is not found"}};
  EXPECT_THAT(told("2.16.0"), HasSubstr("PyTorch 2.16.0 has no c10::memoryProfilingEnabled: this is not known; no "
                                        "THPVariableClass, ParameterClass: that is not found. devtrace "));
  EXPECT_THAT(told("2.16.0"), IsEmpty());
  const pid_t child = ::fork();
  if (child == 0) ::_exit(told("2.16.0").empty() ? 0 : 1);
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
