#include "tracker/launch/launch_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/emulated.h"
#include "tests/unit/tracker/quiet.h"
#include "tracker/base/thread_state.h"
#include "tracker/events.h"
#include "tracker/findings/findings.h"
#include "tracker/interface/platform.h"
#include "tracker/launch/kernels.h"

namespace {

using namespace devtrace;

constexpr uintptr_t kBase = 0x7300'0000'0000;
constexpr uintptr_t kChunk = uintptr_t{1} << memory::ownership::kChunkBits;
constexpr int kDevices = 8;
constexpr uintptr_t memory_of(int device) {
  return kBase + static_cast<uintptr_t>(device) * 16 * kChunk;
}

const bool quiet = test::quiet();

int device_now = 0;
int code_read = 0;
WordUses uses;
uintptr_t within_reach = 0;
const Kernel* read_meanwhile = nullptr;  // by another thread
using As = WordUse::As;
WordUse address(size_t) {
  return {As::possible_address, {}};
}
const char handle = 0;

// What CUDA knows and nobody saw being allocated.
bool cuda_answers = true;
std::vector<memory::ownership::Extent> unseen;
std::vector<uint64_t> asked;
Platform::Answer memory_at(uint64_t address, memory::ownership::Extent& extent) {
  asked.push_back(address);
  if (!cuda_answers) return Platform::Answer::none;
  for (const memory::ownership::Extent& one : unseen)
    if (address - one.address < one.bytes) {
      extent = one;
      return Platform::Answer::known;
    }
  return Platform::Answer::nobodys;
}

// Launches of a kernel(long, T*, struct { long; T* tensors[3]; }) on `device_now`, with findings counted and not
// written.
class Launches : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    ASSERT_TRUE(quiet);
    Platform answers = test::platform_of_device_0();
    answers.current_device = [] { return device_now; };
    answers.uses_of_parameters = [](const void*, const std::string&) {
      ++code_read;
      return uses;
    };
    answers.memory_at = memory_at;
    answers.host_within_reach = [](int, uintptr_t address) {
      if (read_meanwhile) launch::kernels::ask_code(*std::exchange(read_meanwhile, nullptr), uses);
      return address == within_reach;
    };
    set_platform(answers);
    for (int device = 0; device < kDevices; ++device)
      memory::ownership::add({memory_of(device), 4 * kChunk, Device::cuda(device)});
  }

  void SetUp() override {
    set_device(0);
    uses = address;
    code_read = 0;
    kernel = launch::kernels::remember(&handle, "kernel", {{0, 8}, {8, 8}, {16, 32}});
  }

  static void set_device(int device) {
    device_now = device;
    thread_state::set_device(-1);  // has to be asked for
  }

  uint64_t launch(bool as_block) {
    events::Launch launch;
    launch.function = &handle;
    launch.kernel = kernel;
    const void* parameters[] = {&words[0], &words[1], &words[2]};
    if (as_block) {
      launch.block = words;
      launch.block_bytes = sizeof words;
    } else {
      launch.parameters = parameters;
    }
    const uint64_t before = findings::count();
    launch::check(launch);
    return findings::count() - before;
  }
  static bool passes_at_once(const void* function, const void* const* parameters) {
    return launch::passes(
        function, parameters, [] { return true; }, launch::rest_passes);
  }

  static const Kernel* kernel;
  uintptr_t words[6] = {};
};
const Kernel* Launches::kernel = nullptr;

TEST_F(Launches, MostPassInFewWords) {
  const void* const parameters[] = {&words[0], &words[1], &words[2]};
  const auto passes = [&] { return passes_at_once(&handle, parameters); };
  thread_state::set_device(0);
  words[1] = memory_of(0);
  EXPECT_FALSE(passes());  // this thread has not launched the kernel before
  ASSERT_EQ(launch::kernels::known(&handle), kernel);
  EXPECT_TRUE(passes());
  EXPECT_FALSE(passes_at_once(&handle, nullptr));
  words[1] = memory_of(1);
  EXPECT_FALSE(passes());
  words[1] = reinterpret_cast<uintptr_t>(&words);  // of the host
  EXPECT_FALSE(passes());
  words[1] = 0;
  words[3] = memory_of(1);
  EXPECT_FALSE(passes());
  words[3] = memory_of(0);
  EXPECT_TRUE(passes());
  words[0] = uintptr_t{1} << 33;  // found to be a number
  EXPECT_EQ(launch(false), 0u);
  EXPECT_TRUE(passes());
  for (const size_t behind : {1, 3, 5}) {
    words[behind] = memory_of(1);
    EXPECT_FALSE(passes()) << "word " << behind;
    words[behind] = memory_of(0);
  }
  thread_state::set_device(1);
  EXPECT_FALSE(passes());
  thread_state::set_device(-1);
  EXPECT_FALSE(passes());
  thread_state::set_device(0);
  launch::kernels::forget_all();
  EXPECT_FALSE(passes());
}

TEST_F(Launches, AThreadRemembersAsManyKernelsAsAModelHas) {
  std::mt19937 random;  // handles come from malloc
  std::vector<const void*> handles;
  for (int i = 0; i < 48; ++i) handles.push_back(reinterpret_cast<const void*>(uintptr_t{random()} << 4));
  for (const void* const each : handles) launch::kernels::remember(each, "kernel", {{0, 8}});
  for (const void* const each : handles) ASSERT_NE(launch::kernels::known(each), nullptr);
  for (const void* const each : handles) EXPECT_NE(launch::kernels::remembered(each), nullptr);
}

TEST_F(Launches, APassNotesOnWhichDeviceIsComputed) {
  const void* const parameters[] = {&words[0], &words[1], &words[2]};
  ASSERT_EQ(launch::kernels::known(&handle), kernel);
  const Device device = Device::cuda(memory::ownership::kDevices - 1);
  ASSERT_FALSE(memory::devices_in_use::has_computed(device));
  thread_state::set_device(device.index);
  EXPECT_TRUE(passes_at_once(&handle, parameters));
  EXPECT_TRUE(memory::devices_in_use::has_computed(device));
}

TEST_F(Launches, AKernelWhoseJobIsToReachOtherDevicesPasses) {
  static const char reaching = 0;
  const void* const parameters[] = {&words[0], &words[1]};
  const Kernel* const excused =
      launch::kernels::remember(&reaching, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", {{0, 8}, {8, 8}});
  ASSERT_TRUE(excused->excused);
  ASSERT_EQ(launch::kernels::known(&reaching), excused);
  thread_state::set_device(0);
  words[0] = memory_of(1);
  EXPECT_TRUE(passes_at_once(&reaching, parameters));
}

TEST_F(Launches, EveryWordIsLookedAt) {
  for (const uintptr_t others : {memory_of(0) + 64, uintptr_t{0x3f800000'3f800000}})
    for (const bool as_block : {false, true})
      for (size_t place = 0; place < 6; ++place)
        for (int device = 0; device < kDevices; ++device) {
          std::fill(std::begin(words), std::end(words), others);
          words[place] = memory_of(device) + 3 * kChunk + 8;
          EXPECT_EQ(launch(as_block), device == 0 ? 0u : 1u) << "word " << place << " of device " << device;
        }
}

TEST_F(Launches, WordsThatAreNoAddressesOfDeviceMemoryAreNothing) {
  const uintptr_t host = reinterpret_cast<uintptr_t>(words);
  const uintptr_t values[] = {
      0, 1, ~uintptr_t{0}, 0x3f800000'3f800000, host, memory_of(1) + 4 * kChunk + 1, memory_of(1) | uintptr_t{1} << 60};
  for (uintptr_t value : values) {
    std::fill(std::begin(words), std::end(words), value);
    EXPECT_EQ(launch(false), 0u) << std::hex << value;
  }
}

TEST_F(Launches, MemoryThatIsGoneIsNobodys) {
  const uintptr_t gone = memory_of(1) + 8 * kChunk;
  memory::ownership::add({gone, kChunk, Device::cuda(1)});
  words[0] = gone;
  EXPECT_EQ(launch(false), 1u);
  memory::ownership::remove(gone);
  EXPECT_EQ(launch(false), 0u);
}

TEST_F(Launches, TheDeviceIsAskedForWhereItIsNotKnown) {
  std::fill(std::begin(words), std::end(words), memory_of(5));
  set_device(5);
  EXPECT_EQ(launch(false), 0u);
  // A stale belief is put right before anything is said.
  thread_state::set_device(2);
  EXPECT_EQ(launch(false), 0u);
  EXPECT_EQ(thread_state::device(), 5);
}

TEST_F(Launches, MemoryThatNobodySawIsAskedForOnce) {
  const uintptr_t base = memory_of(20);
  unseen = {{base, 2 * kChunk, Device::cuda(3)},
            {base + 8 * kChunk, kChunk, Device::cpu(), memory::ownership::Memory::pinned}};
  std::fill(std::begin(words), std::end(words), memory_of(0));
  launch(false);
  asked.clear();
  words[1] = base + kChunk + 5;
  words[4] = base + 8 * kChunk + 5;
  words[5] = base + 12 * kChunk;  // nobody's
  EXPECT_EQ(launch(false), 1u);
  EXPECT_EQ(asked.size(),
            5u);  // the three, and the one again whenever it is looked at exactly: before the code is read and after
  asked.clear();
  words[1] = memory_of(0);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(launch(false), 0u);
  EXPECT_TRUE(asked.empty());
  // Nobody sees its end either.
  words[1] = base + 5;
  unseen.clear();
  EXPECT_EQ(launch(false), 0u);
  EXPECT_FALSE(memory::ownership::extent_at(base + 5));
}

TEST_F(Launches, WhereCudaDoesNotAnswerAnotherLaunchAsks) {
  const uintptr_t base = memory_of(22);
  unseen = {{base, kChunk, Device::cuda(3)}};
  std::fill(std::begin(words), std::end(words), memory_of(0));
  words[2] = base;
  cuda_answers = false;
  EXPECT_EQ(launch(false), 0u);
  cuda_answers = true;
  EXPECT_EQ(launch(false), 1u);
  unseen.clear();
  memory::ownership::remove(base);
}

TEST_F(Launches, WhatIsNoAddressIsNotAskedFor) {
  const uintptr_t values[] = {0, 1, 0xffff'ffff, ~uintptr_t{0}, 0x3f800000'3f800000};
  asked.clear();
  for (const uintptr_t value : values) {
    std::fill(std::begin(words), std::end(words), value);
    EXPECT_EQ(launch(false), 0u);
  }
  EXPECT_TRUE(asked.empty());
}

TEST_F(Launches, OneLaunchAsksOnlySoMuch) {
  static const char other = 0;
  const Kernel* mine = kernel;
  kernel = launch::kernels::remember(&other, "many", {{0, 512}});
  uintptr_t many[64];
  for (size_t i = 0; i < 64; ++i) many[i] = memory_of(24) + i * kChunk;
  events::Launch launch;
  launch.function = &other;
  launch.kernel = kernel;
  launch.block = many;
  launch.block_bytes = sizeof many;
  asked.clear();
  for (size_t launches = 1; launches <= 4; ++launches) {
    launch::check(launch);
    EXPECT_EQ(asked.size(), launches * 16);
  }
  launch::check(launch);
  EXPECT_EQ(asked.size(), 64u);
  kernel = mine;
}

TEST_F(Launches, AnExcusedKernelMayDoAsItLikes) {
  static const char other = 0;
  const Kernel* mine = kernel;
  kernel = launch::kernels::remember(&other, "ncclDevKernel_AllReduce", {{0, 48}});
  std::fill(std::begin(words), std::end(words), memory_of(3));
  EXPECT_EQ(launch(true), 0u);
  kernel = mine;
}

TEST_F(Launches, TheCodeIsReadOnceAndOnlyWhenALaunchLooksSuspicious) {
  uses = [](size_t in_block) { return in_block == 24 ? WordUse() : address(in_block); };
  std::fill(std::begin(words), std::end(words), memory_of(0));
  EXPECT_EQ(launch(false), 0u);
  EXPECT_EQ(code_read, 0);
  words[3] = memory_of(1);  // what the code does not read may be anything
  for (const bool as_block : {false, true, false}) EXPECT_EQ(launch(as_block), 0u);
  EXPECT_EQ(code_read, 1);
  words[4] = memory_of(1);
  EXPECT_EQ(launch(false), 1u);
  EXPECT_EQ(code_read, 1);
}

TEST_F(Launches, WhereNobodyCanReadTheCodeStructuresAreLeftOut) {
  uses = {};
  std::fill(std::begin(words), std::end(words), memory_of(1));
  words[0] = words[1] = memory_of(0);
  EXPECT_EQ(launch(false), 0u);
  words[1] = memory_of(1);
  EXPECT_EQ(launch(false), 1u);
}

TEST_F(Launches, WhatAlwaysLooksSuspiciousIsNotLookedAtForEver) {
  const uintptr_t gone = memory_of(1) + 8 * kChunk;
  memory::ownership::add({gone, kChunk, Device::cuda(1)});
  memory::ownership::remove(gone);
  uses = [](size_t in_block) { return in_block == 0 ? address(in_block) : WordUse(); };
  std::fill(std::begin(words), std::end(words), memory_of(0));
  words[3] = gone;
  EXPECT_EQ(launch(false), 0u);
  EXPECT_EQ(code_read, 0) << "reading is dearer than one look";
  for (uint32_t i = 0; i < Kernel::kManyLooks; ++i) launch(false);
  EXPECT_EQ(code_read, 1);
  EXPECT_EQ(kernel->words().runs.size(), 1u);
}

// Findings at a launch of a kernel(T*, struct { ... }) whose five words are `block`.
uint64_t launch_of_two(const char* handle, uintptr_t (&block)[5], bool as_block, unsigned x, unsigned y) {
  const void* parameters[] = {&block[0], &block[1]};
  events::Launch launch;
  launch.function = handle;
  launch.kernel = launch::kernels::remember(handle, "arrays", {{0, 8}, {8, 32}});
  launch.grid[0] = x;
  launch.grid[1] = y;
  launch.block = as_block ? block : nullptr;
  launch.block_bytes = sizeof block;
  launch.parameters = as_block ? nullptr : parameters;
  const uint64_t before = findings::count();
  launch::check(launch);
  return findings::count() - before;
}

// A kernel of PyTorch's on two tensors of one device, after one on another: the rest of its array is what the stack
// held.
TEST_F(Launches, WhatNoBlockTakesOutOfAnArrayIsNotSet) {
  static const char handles[2] = {};
  for (const bool as_block : {false, true}) {
    uses = [](size_t in_block) {
      const device::Array array{
          .begin = 8, .end = 40, .stride = 8, .dimension = 1, .table = 0, .table_width = 0, .followed = true};
      return WordUse{As::address, in_block >= 8 ? std::optional(array) : std::nullopt};
    };
    uintptr_t block[] = {memory_of(0), memory_of(0), memory_of(0), memory_of(1), 0};
    EXPECT_EQ(launch_of_two(&handles[as_block], block, as_block, 128, 2), 0U);
    EXPECT_EQ(launch_of_two(&handles[as_block], block, as_block, 128, 3), 1U);
  }
}

// The same by a table of the entry that each block takes, in the same structure.
TEST_F(Launches, TheTableInTheParametersSaysWhichEntriesAreSet) {
  static const char handles[2] = {};
  for (const bool as_block : {false, true}) {
    uses = [](size_t in_block) {
      const device::Array array{
          .begin = 8, .end = 32, .stride = 8, .dimension = 0, .table = 32, .table_width = 1, .followed = false};
      return in_block == 32 ? WordUse() : WordUse{As::possible_address, in_block ? std::optional(array) : std::nullopt};
    };
    uintptr_t block[] = {memory_of(0), memory_of(0), memory_of(1), memory_of(0), 0x01'00'02'00};
    // Blocks that take entries 0, 2 and 0; then 1, too.
    EXPECT_EQ(launch_of_two(&handles[as_block], block, as_block, 3, 0), 0U);
    EXPECT_EQ(launch_of_two(&handles[as_block], block, as_block, 4, 0), 1U);
  }
}

TEST_F(Launches, AProgramThatEnabledAccessItselfGetsANote) {
  std::fill(std::begin(words), std::end(words), memory_of(0));
  words[1] = memory_of(6);
  events::peers_changed(0, 6, true, true);
  const uint64_t faults = findings::faults();
  EXPECT_EQ(launch(false), 1u);
  EXPECT_EQ(findings::faults(), faults);
  report::Json finding = test::last_finding();
  EXPECT_EQ(finding["severity"], "note");
  EXPECT_EQ(finding["note"], "the program itself enabled access from cuda:0 to cuda:6");
  EXPECT_EQ(finding["cause"]["category"], "declared-access");
  events::peers_changed(0, 6, false, true);
  EXPECT_EQ(launch(false), 1u);
  EXPECT_EQ(findings::faults(), faults + 1);
  EXPECT_EQ(test::last_finding()["severity"], "error");
}

constexpr const char* kUnreadable =
    "qemu's user mode has no process_vm_readv, by which memory of the host is looked at";

// The host's memory, of this process: mapped, and no device's.
TEST_F(Launches, MemoryOfTheHostIsFoundWhereTheCodeGoesThere) {
  if (emulated()) GTEST_SKIP() << kUnreadable;
  uses = [](size_t in_block) { return in_block == 8 || in_block == 32 ? WordUse{As::address, {}} : address(in_block); };
  const std::vector<char> host(1 << 20);
  const auto data = reinterpret_cast<uintptr_t>(host.data());
  std::fill(std::begin(words), std::end(words), memory_of(0));
  for (size_t place = 0; place < 6; ++place) {
    words[place] = data + 64 * place;
    EXPECT_EQ(launch(place % 2), place == 1 || place == 4 ? 1u : 0u) << "word " << place;
    words[place] = memory_of(0);
  }
}

TEST_F(Launches, MemoryOfTheHostThatDevicesReachIsNothing) {
  if (emulated()) GTEST_SKIP() << kUnreadable;
  uses = [](size_t) { return WordUse{As::address, {}}; };
  const std::vector<char> host(1 << 20);
  std::fill(std::begin(words), std::end(words), memory_of(0));
  words[1] = within_reach = reinterpret_cast<uintptr_t>(host.data()) + 4096;
  EXPECT_EQ(launch(false), 0u);
  within_reach = 0;
  EXPECT_EQ(launch(false), 0u) << "a page is asked about once";
  memory::ownership::add({words[1] + 8192, 4096, Device::cpu(), memory::ownership::Memory::pinned});
  words[1] += 8192 + 16;
  EXPECT_EQ(launch(false), 0u);
  memory::ownership::remove(words[1] - 16);
  EXPECT_EQ(launch(false), 1u) << "until pinned memory is freed";
}

TEST_F(Launches, AddressesWhereNothingIsAreNumbers) {
  uses = [](size_t) { return WordUse{As::address, {}}; };
  std::fill(std::begin(words), std::end(words), memory_of(0));
  for (const uintptr_t value : {uintptr_t{0}, uintptr_t{7}, uintptr_t{0x1234'0000'0000}, uintptr_t{1} << 33}) {
    words[1] = value;
    EXPECT_EQ(launch(false), 0u) << std::hex << value;
  }
}

TEST_F(Launches, WhatALookBeganWithIsNotBelievedWhereTheCodeWasReadMeanwhile) {
  if (emulated()) GTEST_SKIP() << kUnreadable;
  uses = [](size_t) { return WordUse{As::nothing, {}}; };
  const std::vector<char> host(1 << 20);
  std::fill(std::begin(words), std::end(words), memory_of(0));
  words[1] = reinterpret_cast<uintptr_t>(host.data()) + 4096;
  read_meanwhile = kernel;
  EXPECT_EQ(launch(false), 0u);
  EXPECT_EQ(read_meanwhile, nullptr);
}

TEST_F(Launches, WhereNobodyCanReadTheCodeNothingIsSaidOfTheHost) {
  uses = {};
  const std::vector<char> host(1 << 20);
  std::fill(std::begin(words), std::end(words), memory_of(0));
  words[1] = reinterpret_cast<uintptr_t>(host.data());
  EXPECT_EQ(launch(false), 0u);
}

TEST_F(Launches, CudaHasTheLastWordOnWhoseMemoryItIs) {
  const uintptr_t base = memory_of(30);
  memory::ownership::add({base, kChunk, Device::cuda(4)});  // … which a graph has given back unseen
  unseen = {{base, kChunk, Device::cuda(0)}};
  std::fill(std::begin(words), std::end(words), memory_of(0));
  words[1] = base + 64;
  EXPECT_EQ(launch(false), 0u);
  EXPECT_EQ(memory::ownership::extent_at(base)->device, Device::cuda(0));
}

}  // namespace
