#include "common/torch_functions.h"

#include <gtest/gtest.h>

#include <set>

#include "report/verdict/cpp/origin.h"

namespace devtrace::torch_functions {
namespace {

TEST(TorchFunctions, AreFoundByName) {
  EXPECT_TRUE(function_named("zeros").is(kMakes | kTakesDevice | kOfSizes));
  EXPECT_FALSE(function_named("zeros").follows_operands());
  EXPECT_TRUE(function_named("zeros_like").is(kMakes | kTakesDevice | kStays));
  EXPECT_TRUE(function_named("rand").is(kRandom));
  EXPECT_FALSE(function_named("from_numpy").is(kTakesDevice));
  EXPECT_TRUE(function_named("matmul").follows_operands());
  EXPECT_FALSE(function_named("matmul").is(kMakes));
  EXPECT_TRUE(function_named("cpu").is(kLeaves));
  for (const char* other : {"", "zero", "zeros_", "kernel"}) EXPECT_EQ(function_named(other).traits, 0u) << other;
}

TEST(TorchFunctions, StandInOneRowEach) {
  std::set<std::string_view> names;
  for (const Function& function : kTable) {
    EXPECT_TRUE(names.insert(function.name).second) << function.name;
    EXPECT_FALSE(function.is(kLeaves) && function.follows_operands()) << function.name;
    EXPECT_FALSE(function.is(kOfSizes) && function.follows_operands()) << function.name;
  }
}

std::string moved_in_cpp(std::string source) {
  report::verdict::Event made;
  made.native.emplace_back();
  made.native[0].project = true;
  made.native[0].source = std::move(source);
  const auto fix = report::verdict::put_on(made, false, "cuda:1");
  return fix ? fix->code : "";
}

TEST(TorchFunctions, OfLibTorchAreMovedWhereTheyMakeATensor) {
  const std::string to = ".to(torch::Device(torch::kCUDA, 1))";
  EXPECT_EQ(moved_in_cpp("auto m = torch::zeros({n});"), "auto m = torch::zeros({n})" + to + ";");
  EXPECT_EQ(moved_in_cpp("auto m = torch::hann_window(n);"), "auto m = torch::hann_window(n)" + to + ";");
  EXPECT_EQ(moved_in_cpp("auto m = torch::zeros_like(x);"), "auto m = torch::zeros_like(x)" + to + ";");
  EXPECT_EQ(moved_in_cpp("auto m = x.new_zeros({n});"), "auto m = x.new_zeros({n})" + to + ";");
  EXPECT_EQ(moved_in_cpp("auto m = torch::zeros_like(x, torch::kCUDA);"), "") << "somebody wanted it there";
  EXPECT_EQ(moved_in_cpp("auto m = f(std::complex<float>(1, 2));"), "");
  EXPECT_EQ(moved_in_cpp("auto m = torch::add(x, y);"), "");
}

}  // namespace
}  // namespace devtrace::torch_functions
