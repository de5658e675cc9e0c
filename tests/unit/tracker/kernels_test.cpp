#include "tracker/kernels.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tracker/policy.h"

namespace kernels = devtrace::kernels;

namespace {
const char handles[5] = {};
bool everywhere(size_t) {
  return true;
}
}  // namespace

TEST(Kernels, EveryAlignedWordOfEveryParameterCanHoldAPointer) {
  // kernel(int, float*, struct { char; void* a[2]; int; }, char)
  const kernels::Kernel* kernel = kernels::remember(&handles[0], "k", {{0, 4}, {8, 8}, {16, 28}, {44, 1}}, everywhere);
  std::vector<std::pair<int, int>> words;
  for (const auto& word : kernel->words) {
    words.emplace_back(word.parameter, word.in_parameter);
    EXPECT_EQ(word.in_block % 8, 0u);
  }
  EXPECT_EQ(words, (std::vector<std::pair<int, int>>{{1, 0}, {2, 0}, {2, 8}, {2, 16}}));
  EXPECT_EQ(kernels::known(&handles[0]), kernel);
}

TEST(Kernels, AParameterThatIsNotAlignedIsReadWhereAlignmentBegins) {
  const kernels::Kernel* kernel = kernels::remember(&handles[1], "k", {{4, 20}}, everywhere);
  ASSERT_EQ(kernel->words.size(), 2u);
  EXPECT_EQ(kernel->words[0].in_parameter, 4);
  EXPECT_EQ(kernel->words[0].in_block, 8u);
  EXPECT_EQ(kernel->words[1].in_parameter, 12);
}

TEST(Kernels, WordsThatTheCodeDoesNotReadDoNotCount) {
  const kernels::Kernel* kernel =
      kernels::remember(&handles[3], "k", {{0, 8}, {8, 32}}, [](size_t offset) { return offset == 24; });
  ASSERT_EQ(kernel->words.size(), 1u);
  EXPECT_EQ(kernel->words[0].in_block, 24u);
}

TEST(Kernels, WhereTheCodeIsUnknownOnlyWholePointersCount) {
  const kernels::Kernel* kernel = kernels::remember(&handles[4], "k", {{0, 4}, {8, 8}, {16, 32}});
  ASSERT_EQ(kernel->words.size(), 1u);
  EXPECT_EQ(kernel->words[0].parameter, 1);
}

TEST(Kernels, AHandleThatComesAgainIsAskedAnew) {
  kernels::remember(&handles[2], "old", {});
  std::thread other([] { EXPECT_EQ(kernels::known(&handles[2])->name, "old"); });
  other.join();
  ASSERT_EQ(kernels::known(&handles[2])->name, "old");
  kernels::forget_all();
  EXPECT_EQ(kernels::known(&handles[2]), nullptr);
  kernels::remember(&handles[2], "new", {});
  EXPECT_EQ(kernels::known(&handles[2])->name, "new");
}

TEST(Policy, KernelsWhoseJobItIsAreExcused) {
  for (const char* name :
       {"ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "_Z24ncclDevKernel_SendRecv24ncclDevKernelArgsStorageILm4096EE",
        "_ZN2at6native18elementwise_kernelILi128ELi4EZNS0_15gpu_kernel_implIZZZNS0_23direct_copy_kernel_cudaERNS"})
    EXPECT_TRUE(devtrace::policy::may_reach_other_devices(name)) << name;
  for (const char* name :
       {"add", "_ZN2at6native18elementwise_kernelILi128ELi2EZNS0_22gpu_kernel_impl_nocastINS0_15CUDAFunctor_addIfEEEE",
        ""})
    EXPECT_FALSE(devtrace::policy::may_reach_other_devices(name)) << name;
}
