#include "tracker/launch/kernels.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tracker/findings/policy.h"

using namespace devtrace;

namespace {
const char handles[5] = {};
// Each word by itself: parameter, offset in it.
std::vector<std::pair<int, int>> words_of(const Kernel* kernel) {
  std::vector<std::pair<int, int>> words;
  for (const WordRun& run : kernel->words().runs) {
    EXPECT_EQ(run.in_block % 8, 0u);
    EXPECT_EQ(run.in_block - run.in_parameter, kernel->parameters[run.parameter].offset);
    for (uint32_t i = 0; i < run.words; ++i) words.emplace_back(run.parameter, run.in_parameter + 8 * i);
  }
  return words;
}
using Positions = std::vector<std::pair<int, int>>;
}  // namespace

TEST(Kernels, EveryAlignedWordOfEveryParameterCanHoldAPointer) {
  // kernel(int, float*, struct { char; void* a[2]; int; }, char)
  const Kernel* kernel = launch::kernels::remember(&handles[0], "k", {{0, 4}, {8, 8}, {16, 28}, {44, 1}});
  EXPECT_EQ(words_of(kernel), (Positions{{1, 0}, {2, 0}, {2, 8}, {2, 16}}));
  EXPECT_EQ(launch::kernels::known(&handles[0]), kernel);
  EXPECT_FALSE(kernel->words().code_asked);
}

TEST(Kernels, AParameterThatIsNotAlignedIsReadWhereAlignmentBegins) {
  const Kernel* kernel = launch::kernels::remember(&handles[1], "k", {{4, 20}});
  EXPECT_EQ(words_of(kernel), (Positions{{0, 4}, {0, 12}}));
}

TEST(Kernels, WordsThatTheCodeDoesNotReadAreDroppedOnceItWasAsked) {
  const Kernel* kernel = launch::kernels::remember(&handles[3], "k", {{0, 8}, {8, 40}});
  launch::kernels::ask_code(*kernel, [](size_t offset) {
    using As = WordUse::As;
    return WordUse{offset == 16 || offset == 24 || offset == 40 ? As::possible_address : As::nothing, {}};
  });
  EXPECT_EQ(words_of(kernel), (Positions{{1, 8}, {1, 16}, {1, 32}}));
  EXPECT_TRUE(kernel->words().code_asked);
}

TEST(Kernels, WhereTheCodeIsUnknownOnlyWholePointersCount) {
  const Kernel* kernel = launch::kernels::remember(&handles[4], "k", {{0, 4}, {8, 8}, {16, 32}});
  launch::kernels::ask_code(*kernel, {});
  EXPECT_EQ(words_of(kernel), (Positions{{1, 0}}));
}

TEST(Kernels, AHandleThatComesAgainIsAskedAnew) {
  launch::kernels::remember(&handles[2], "old", {});
  std::thread other([] { EXPECT_EQ(launch::kernels::known(&handles[2])->name, "old"); });
  other.join();
  ASSERT_EQ(launch::kernels::known(&handles[2])->name, "old");
  launch::kernels::forget_all();
  EXPECT_EQ(launch::kernels::known(&handles[2]), nullptr);
  launch::kernels::remember(&handles[2], "new", {});
  EXPECT_EQ(launch::kernels::known(&handles[2])->name, "new");
}

TEST(Policy, KernelsWhoseJobItIsAreExcused) {
  for (const char* name :
       {"ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "_Z24ncclDevKernel_SendRecv24ncclDevKernelArgsStorageILm4096EE",
        "_ZN2at6native18elementwise_kernelILi128ELi4EZNS0_15gpu_kernel_implIZZZNS0_23direct_copy_kernel_cudaERNS"})
    EXPECT_TRUE(devtrace::findings::policy::may_reach_other_devices(name)) << name;
  for (const char* name :
       {"add", "_ZN2at6native18elementwise_kernelILi128ELi2EZNS0_22gpu_kernel_impl_nocastINS0_15CUDAFunctor_addIfEEEE",
        ""})
    EXPECT_FALSE(devtrace::findings::policy::may_reach_other_devices(name)) << name;
}
