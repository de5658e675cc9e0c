// Calls of CUDA's libraries, and what is known of kernels.
#include "tracker/launch/library_check.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tests/unit/tracker/quiet.h"
#include "tracker/events.h"
#include "tracker/findings/findings.h"
#include "tracker/findings/policy.h"
#include "tracker/interface/platform.h"
#include "tracker/launch/kernels.h"
#include "tracker/memory/library_handles.h"
#include "tracker/memory/ownership.h"

namespace {

using namespace devtrace;
using events::HandleKnown;

constexpr uintptr_t kLibraryCheckBase = 0x7310'0000'0000;
constexpr uintptr_t kStep = uintptr_t{64} << 20;
constexpr events::LibraryHandle kHandle = 0x5500'0000'1000;

const bool quiet = test::quiet();
int device_now = 0;

const void* memory_of(int device) {
  return reinterpret_cast<const void*>(kLibraryCheckBase + static_cast<uintptr_t>(device) * kStep);
}

class LibraryCalls : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    ASSERT_TRUE(quiet);
    Platform answers = test::platform_of_device_0();
    answers.current_device = [] { return device_now; };
    answers.memory_at = [](uint64_t, Extent&) { return Platform::Answer::nobodys; };
    set_platform(answers);
    for (int device = 0; device < 2; ++device)
      memory::ownership::add({reinterpret_cast<uintptr_t>(memory_of(device)), kStep / 2, Device::cuda(device)});
  }
  void SetUp() override {
    device_now = 0;
    events::library_handle_made(kHandle, "cublasCreate");
  }
  void TearDown() override { events::library_handle_gone(kHandle); }

  static HandleKnown called(std::vector<const void*> arguments) {
    const HandleKnown known =
        events::library_called({"cublasSgemm", kHandle, arguments.data(), arguments.size(), nullptr});
    if (known == HandleKnown::told) events::library_returned();
    return known;
  }
};

TEST_F(LibraryCalls, OnMemoryOfTheHandlesDevice) {
  const float scalar = 1;
  const auto before = findings::count();
  EXPECT_EQ(called({&scalar, memory_of(0), nullptr}), HandleKnown::yes);
  EXPECT_EQ(findings::count(), before);
}

TEST_F(LibraryCalls, OnMemoryOfAnotherDevice) {
  const auto before = findings::count();
  EXPECT_EQ(called({memory_of(0), memory_of(1)}), HandleKnown::told);
  EXPECT_EQ(called({memory_of(1)}), HandleKnown::told);
  EXPECT_EQ(findings::count(), before + 2);
}

// The first argument is a descriptor.
TEST_F(LibraryCalls, OnMemoryThatADescriptorStandsFor) {
  const int place = 0;
  const void* const descriptor = &place;
  const void* arguments[] = {descriptor, memory_of(0)};
  const auto call = [&](uint64_t descriptors) {
    const HandleKnown known = events::library_called({"cusparseSpMV", kHandle, arguments, 2, nullptr, descriptors});
    if (known == HandleKnown::told) events::library_returned();
    return known;
  };
  EXPECT_EQ(call(1), HandleKnown::yes);  // nobody saw it being made
  const void* memory[] = {memory_of(0), memory_of(0), memory_of(1)};
  events::descriptor_made(descriptor, memory, 3);
  EXPECT_EQ(call(1), HandleKnown::told);
  EXPECT_EQ(call(0), HandleKnown::yes);  // no parameter for descriptors
  const void* values[] = {memory_of(0)};
  events::descriptor_changed(descriptor, values, 1);
  EXPECT_EQ(call(1), HandleKnown::yes);
  events::descriptor_changed(descriptor, memory, 3);
  EXPECT_EQ(call(1), HandleKnown::told);
  events::descriptor_gone(descriptor);
  EXPECT_EQ(call(1), HandleKnown::yes);
}

TEST_F(LibraryCalls, WhichDeviceIsCurrentDoesNotMatter) {
  device_now = 1;
  const auto before = findings::count();
  EXPECT_EQ(called({memory_of(0)}), HandleKnown::yes);
  EXPECT_EQ(findings::count(), before);
}

TEST_F(LibraryCalls, OfAHandleThatNobodySaw) {
  events::library_handle_gone(kHandle);
  EXPECT_EQ(called({memory_of(1)}), HandleKnown::no);
}

TEST_F(LibraryCalls, AHandleIsBoundAnew) {
  device_now = 1;
  events::library_handle_made(kHandle, "cufftMakePlan1d");
  EXPECT_EQ(called({memory_of(1)}), HandleKnown::yes);
}

TEST_F(LibraryCalls, AHandleThatHasWorkedOnItsDevice) {
  const float scalar = 1;
  EXPECT_FALSE(memory::library_handles::known_handle(kHandle)->used);
  called({&scalar, nullptr});
  EXPECT_FALSE(memory::library_handles::known_handle(kHandle)->used) << "on nobody's memory";
  called({&scalar, memory_of(0)});
  EXPECT_TRUE(memory::library_handles::known_handle(kHandle)->used);
}

TEST_F(LibraryCalls, WhatAToldCallLaunchesIsNotToldAgain) {
  const void* arguments[] = {memory_of(1)};
  ASSERT_FALSE(launch::within_told_call());
  ASSERT_EQ(events::library_called({"cublasSgemm", kHandle, arguments, 1, nullptr}), HandleKnown::told);
  EXPECT_TRUE(launch::within_told_call());
  EXPECT_EQ(events::library_called({"cublasStrsm", kHandle, arguments, 1, nullptr}), HandleKnown::yes)
      << "by a library";
  events::library_returned();
  EXPECT_FALSE(launch::within_told_call());
}

TEST_F(LibraryCalls, OtherHandlesOfTheLibraryOnADevice) {
  device_now = 1;
  events::library_handle_made(kHandle + 1, "cublasCreate");
  events::library_handle_made(kHandle + 2, "cufftPlan1d");
  events::library_handle_made(kHandle + 3, "cublasLtCreate");
  const auto own = memory::library_handles::known_handle(kHandle);
  const auto others = memory::library_handles::others(*own, Device::cuda(1));
  ASSERT_EQ(others.size(), 1U);
  EXPECT_EQ(others[0].number, kHandle + 1);
  for (int i = 1; i < 4; ++i) events::library_handle_gone(kHandle + static_cast<uint64_t>(i));
}

}  // namespace

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
