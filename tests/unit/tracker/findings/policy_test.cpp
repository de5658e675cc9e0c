#include "tracker/findings/policy.h"

#include <gtest/gtest.h>

#include <string>

#include "tracker/base/message.h"
#include "tracker/events.h"
#include "tracker/memory/peer_access.h"

namespace {

using devtrace::findings::Matcher;
using devtrace::findings::RemoteAccess;

using namespace devtrace;
using findings::policy::Verdict;
using stacks::NativeFrame;

NativeFrame frame(const char* module, const char* function) {
  NativeFrame frame;
  frame.module = module;
  frame.function = function;
  return frame;
}

TEST(Pattern, MatchesAnywhereUnlessBound) {
  EXPECT_TRUE(pattern_matches("nccl", "ncclDevKernel"));
  EXPECT_TRUE(pattern_matches("Dev", "ncclDevKernel"));
  EXPECT_FALSE(pattern_matches("dev", "ncclDevKernel"));
  EXPECT_TRUE(pattern_matches("^nccl", "ncclDevKernel"));
  EXPECT_FALSE(pattern_matches("^Dev", "ncclDevKernel"));
  EXPECT_TRUE(pattern_matches("Kernel$", "ncclDevKernel"));
  EXPECT_FALSE(pattern_matches("Dev$", "ncclDevKernel"));
  EXPECT_TRUE(pattern_matches("^ncclDevKernel$", "ncclDevKernel"));
  EXPECT_TRUE(pattern_matches("n*D*K", "ncclDevKernel"));
  EXPECT_TRUE(pattern_matches("^n*l$", "ncclDevKernel"));
  EXPECT_FALSE(pattern_matches("^n*x*l$", "ncclDevKernel"));
  EXPECT_TRUE(pattern_matches("*", ""));
  EXPECT_TRUE(pattern_matches("", "anything"));
  EXPECT_FALSE(pattern_matches("a", ""));
  EXPECT_TRUE(pattern_matches("^a*a*b$", "aaaaaaaab"));
  const std::string many(100'000, 'a');
  EXPECT_FALSE(pattern_matches("a*a*a*a*a*a*b", many)) << "in no time";
}

TEST(Matcher, AllItsPatternsMustMatch) {
  const NativeFrame native[] = {frame("/usr/lib/libcudart.so.13", "cudaLaunchKernel"),
                                frame("/opt/libmine.so.2", "mine::launch(int)"),
                                frame("/opt/python", "_PyEval_EvalFrameDefault"), frame("/opt/other.so", "outer()")};
  const RemoteAccess access{"_Z3addv", "add()", native};
  EXPECT_TRUE((Matcher{.kernel = "^add("}.matches(access)));
  EXPECT_TRUE((Matcher{.kernel = "^_Z3add"}.matches(access)));
  EXPECT_FALSE((Matcher{.kernel = "sub"}.matches(access)));
  EXPECT_TRUE((Matcher{.library = "^libmine.so"}.matches(access))) << "CUDA's own frames launch for somebody";
  EXPECT_FALSE((Matcher{.library = "opt"}.matches(access))) << "the file's name, not its folder";
  EXPECT_FALSE((Matcher{.library = "other"}.matches(access)));
  EXPECT_TRUE((Matcher{.function = "^mine::"}.matches(access)));
  EXPECT_FALSE((Matcher{.function = "outer"}.matches(access))) << "it called the Python code that launches";
  EXPECT_TRUE((Matcher{"add", "mine", "launch"}.matches(access)));
  EXPECT_FALSE((Matcher{"add", "mine", "other"}.matches(access)));
  EXPECT_FALSE((Matcher{.library = "mine"}.matches({.kernel = "k", .demangled = "k", .native = {}})));
  EXPECT_TRUE(Matcher{}.matches(access));
}

const std::vector<Device> kBoth = {Device::cuda(0), Device::cuda(1)};

Verdict verdict(const char* kernel, const std::vector<NativeFrame>& native = {}) {
  return findings::policy::on_remote_access({kernel, kernel, native}, Device::cuda(0), kBoth).verdict;
}

TEST(Policy, ExcusesThoseWhoseJobItIs) {
  EXPECT_EQ(verdict("my_kernel"), Verdict::finding);
  EXPECT_EQ(verdict("ncclDevKernel_AllReduce_Sum_f32_RING_LL"), Verdict::excused);
  EXPECT_EQ(verdict("some_kernel", {frame("/x/nvidia/nccl/lib/libnccl.so.2", "")}), Verdict::excused);
  EXPECT_EQ(verdict("some_kernel", {frame("/x/libnvshmem_host.so.3", "")}), Verdict::excused);
  EXPECT_EQ(verdict("some_kernel", {frame("/x/libcublasMp.so.0", "")}), Verdict::excused);
  EXPECT_EQ(verdict("some_kernel", {frame("/x/libtorch_cuda.so", "c10d::symmetric_memory::barrier(int)")}),
            Verdict::excused);
  EXPECT_EQ(verdict("void at::native::unrolled_elementwise_kernel<CUDAFunctor_conj>()",
                    {frame("/x/libtorch_cuda.so", "at::native::conj_kernel_cuda(at::TensorIteratorBase&)"),
                     frame("/x/libtorch_cpu.so", "at::native::copy_(at::Tensor&, at::Tensor const&, bool)")}),
            Verdict::excused);
  EXPECT_EQ(
      verdict("some_kernel", {frame("/x/libtorch_cuda.so", "at::native::add_kernel()"), frame("/x/libnccl.so.2", "")}),
      Verdict::finding)
      << "who called whoever launched is not who launched";
  EXPECT_TRUE(findings::policy::may_reach_other_devices("ncclDevKernel"));
  EXPECT_FALSE(findings::policy::may_reach_other_devices("my_kernel")) << "rows about libraries excuse no name";
}

TEST(Policy, AProgramThatEnabledAccessItselfIsToldAsANote) {
  EXPECT_EQ(verdict("my_kernel"), Verdict::finding);
  events::peers_changed(0, 1, true, false);  // PyTorch, for its copies
  EXPECT_TRUE(memory::peer_access::allowed(Device::cuda(0), Device::cuda(1)));
  EXPECT_EQ(verdict("my_kernel"), Verdict::finding);
  events::peers_changed(1, 0, true, true);  // the other way
  EXPECT_EQ(verdict("my_kernel"), Verdict::finding);
  events::peers_changed(0, 1, true, true);
  events::peers_changed(0, 1, true, false);  // PyTorch finds it there
  const auto decision = findings::policy::on_remote_access({"my_kernel", "my_kernel", {}}, Device::cuda(0), kBoth);
  EXPECT_EQ(decision.verdict, Verdict::note);
  EXPECT_EQ(decision.reason, "the program itself enabled access from cuda:0 to cuda:1");
  EXPECT_EQ(
      findings::policy::on_remote_access({"k", "k", {}}, Device::cuda(0), {Device::cuda(1), Device::cuda(2)}).verdict,
      Verdict::finding)
      << "one of them was not declared";
  EXPECT_EQ(findings::policy::on_remote_access({"k", "k", {}}, Device::cuda(0), {Device::cpu()}).verdict,
            Verdict::finding);
  events::peers_changed(0, 1, false, true);
  EXPECT_EQ(verdict("my_kernel"), Verdict::finding);
  EXPECT_FALSE(memory::peer_access::allowed(Device::cuda(0), Device::cuda(1)));
  events::peers_changed(1, 0, false, true);
  for (int invalid : {-1, 64, 1000}) events::peers_changed(invalid, 0, true, true);
  EXPECT_FALSE(memory::peer_access::declared(Device::cuda(127), Device::cuda(0)));
}

TEST(Policy, WhatExcusesALaunchIsToldWhenAskedFor) {
  verbose_wanted.store(true);
  testing::internal::CaptureStderr();
  EXPECT_TRUE(findings::policy::may_reach_other_devices("ncclDevKernel"));
  EXPECT_EQ(findings::policy::on_remote_access({"ncclDevKernel", "ncclDevKernel", {}}, Device::cuda(0), kBoth).verdict,
            Verdict::excused);
  const std::string told = testing::internal::GetCapturedStderr();
  verbose_wanted.store(false);
  EXPECT_NE(told.find("policy: no launch of ncclDevKernel is looked at: NCCL"), told.npos) << told;
  EXPECT_NE(told.find("policy: ncclDevKernel on cuda:0 is excused: NCCL"), told.npos) << told;
}

}  // namespace
