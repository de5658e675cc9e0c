#include "tracker/evidence/origins/kernel_stub.h"

#include <gtest/gtest.h>

namespace devtrace::evidence {
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
}  // namespace devtrace::evidence
