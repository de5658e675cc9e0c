#include "report/verdict/cpp_line.h"

#include <gtest/gtest.h>

namespace devtrace::report::verdict {
namespace {

TEST(CppLine, ConstructorsAndWhatTheyConstruct) {
  EXPECT_EQ(constructed("Timer::Timer()"), "Timer");
  EXPECT_EQ(constructed("gpu::Event::Event(unsigned int)"), "gpu::Event");
  EXPECT_EQ(constructed("gpu::Handle<cublas::Of>::Handle<int>(int&&)"), "gpu::Handle<cublas::Of>");
  EXPECT_EQ(constructed("EncoderImpl::EncoderImpl"), "EncoderImpl") << "one that was inlined has no parameters";
  for (const char* other : {"main", "gpu::Event::record(gpu::Stream const&)", "Gate::ModuleHolder<int&, , void>(int&)",
                            "void ns::make<ns::make_type>(int)", "Timer::~Timer()", ""})
    EXPECT_EQ(constructed(other), "") << other;
}

TEST(CppLine, WhoMakesTheObject) {
  const auto frame = [](std::string_view function, int64_t line) {
    Frame frame;
    frame.file = "program.cpp", frame.function = function, frame.source = "Timer timer;";
    frame.line = line, frame.project = true;
    return frame;
  };
  Event made;
  made.native = {frame("Event::Event()", 3), frame("Timer::Timer()", 9), frame("main", 20)};
  EXPECT_EQ(innermost_outside_wrappers(made)->line, 20);
  made.choice.native = {frame("Timer::Timer()", 8)};
  EXPECT_EQ(innermost_outside_wrappers(made)->line, 9) << "this one chose the device itself";
  made.native = {frame("Event::Event()", 3)};
  EXPECT_EQ(innermost_outside_wrappers(made)->line, 3) << "the only one there is";
}

}  // namespace
}  // namespace devtrace::report::verdict
