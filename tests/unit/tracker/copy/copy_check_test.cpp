#include "tracker/copy/copy_check.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/unit/tracker/quiet.h"
#include "tracker/events.h"
#include "tracker/findings/findings.h"
#include "tracker/memory/ownership.h"
#include "tracker/memory/provenance.h"

namespace {

using namespace devtrace;
using events::Copy;
using events::Direction;
using memory::ownership::Memory;
using report::Json;

constexpr uintptr_t kBase = 0x7400'0000'0000;
constexpr uintptr_t kChunk = uintptr_t{1} << memory::ownership::kChunkBits;
constexpr size_t kBytes = 4 * kChunk;
// Devices' memory lies side by side, so that a copy can run from one's into the other's.
constexpr uintptr_t memory_of(int device) {
  return kBase + static_cast<uintptr_t>(device) * kBytes;
}
constexpr uintptr_t kHost = 0x5500'0000'1000;  // a CPU tensor's
constexpr uintptr_t kPinned = 0x7500'0000'0000;
constexpr uintptr_t kManaged = 0x7500'1000'0000;
constexpr uintptr_t kUnseen = 0x5600'0000'0000;

const void* at(uintptr_t address) {
  return reinterpret_cast<const void*>(address);
}

const bool quiet = test::quiet();

class Copies : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    ASSERT_TRUE(quiet);
    set_platform(test::platform_of_device_0());
    for (int device = 0; device < 3; ++device)
      memory::ownership::add({memory_of(device), kBytes, Device::cuda(device)});
    memory::ownership::add({kPinned, kChunk, Device::cpu(), Memory::pinned});
    memory::ownership::add({kManaged, kChunk, Device::cpu(), Memory::managed});
    memory::provenance::given(kHost, kChunk, Device::cpu());
  }
  static void TearDownTestSuite() {
    for (int device = 0; device < 3; ++device) memory::ownership::remove(memory_of(device));
    for (uintptr_t address : {kPinned, kManaged}) memory::ownership::remove(address);
    memory::provenance::taken(kHost);
  }

  static Json finding_of(const Copy& copy) {
    const uint64_t before = findings::count();
    events::copied(copy);
    const uint64_t made = findings::count() - before;
    EXPECT_LE(made, 1u);
    return made == 1 ? test::last_finding() : Json();
  }

  static Json copy(Direction direction, uintptr_t to, uintptr_t from, size_t bytes = 4096) {
    return finding_of(
        {.to = at(to), .from = at(from), .bytes = bytes, .direction = direction, .function = "cudaMemcpy"});
  }

  static Json copy_peer(int to_device, uintptr_t to, int from_device, uintptr_t from) {
    return finding_of({.to = at(to),
                       .from = at(from),
                       .bytes = 4096,
                       .to_device = to_device,
                       .from_device = from_device,
                       .function = "cudaMemcpyPeer"});
  }
};

TEST_F(Copies, WhatIsStatedTruly) {
  EXPECT_TRUE(copy(Direction::host_to_device, memory_of(0), kHost).is_null());
  EXPECT_TRUE(copy(Direction::device_to_host, kHost, memory_of(1)).is_null());
  EXPECT_TRUE(copy(Direction::device_to_device, memory_of(0), memory_of(1)).is_null());
  EXPECT_TRUE(copy(Direction::host_to_host, kHost, kHost + 8192).is_null());
  EXPECT_TRUE(copy_peer(1, memory_of(1), 0, memory_of(0)).is_null());
}

TEST_F(Copies, WhoStatesNothingCannotBeWrong) {
  for (uintptr_t to : {kHost, kPinned, kManaged, kUnseen, memory_of(0), memory_of(1)})
    for (uintptr_t from : {kHost, kPinned, kManaged, kUnseen, memory_of(0), memory_of(1)})
      EXPECT_TRUE(copy(Direction::undeclared, to, from).is_null());
}

// All that can be said of memory that is everybody's, or that nobody saw, is allowed.
TEST_F(Copies, ManagedPinnedAndUnseenMemoryContradictsNothing) {
  for (uintptr_t other : {kPinned, kManaged, kUnseen}) {
    for (auto direction :
         {Direction::host_to_host, Direction::host_to_device, Direction::device_to_host, Direction::device_to_device})
      EXPECT_TRUE(copy(direction, other, other + 8192).is_null());
    EXPECT_TRUE(copy_peer(1, other, 0, other + 8192).is_null());
  }
}

TEST_F(Copies, EveryWrongDirectionIsFoundAndItsEndNamed) {
  struct {
    Direction direction;
    uintptr_t to, from;
    const char* argument;
    const char* message;
  } const cases[] = {
      {Direction::host_to_device, kHost, kHost + 8192, "destination",
       "cudaMemcpy from host to device: its destination is on the host and not on a device"},
      {Direction::host_to_device, memory_of(0), memory_of(1), "source",
       "cudaMemcpy from host to device: its source is on cuda:1 and not on the host"},
      {Direction::device_to_host, kHost, kHost + 8192, "source",
       "cudaMemcpy from device to host: its source is on the host and not on a device"},
      {Direction::device_to_host, memory_of(1), memory_of(0), "destination",
       "cudaMemcpy from device to host: its destination is on cuda:1 and not on the host"},
      {Direction::device_to_host, memory_of(1), kHost, "source and destination",
       "cudaMemcpy from device to host: its destination is on cuda:1 and not on the host, and its source is on the "
       "host and not on a device"},
      {Direction::device_to_device, kHost, memory_of(0), "destination",
       "cudaMemcpy from device to device: its destination is on the host and not on a device"},
      {Direction::host_to_host, kHost, memory_of(2), "source",
       "cudaMemcpy from host to host: its source is on cuda:2 and not on the host"},
  };
  for (const auto& each : cases) {
    const Json finding = copy(each.direction, each.to, each.from);
    ASSERT_FALSE(finding.is_null()) << each.message;
    EXPECT_EQ(finding["kind"], "copy-mismatch");
    EXPECT_EQ(finding["message"], each.message);
    EXPECT_EQ(finding["argument"], each.argument);
    EXPECT_EQ(finding["cause"]["category"], "copy-direction-misstated");
    EXPECT_EQ(finding["copy"]["bytes"], 4096);
  }
}

TEST_F(Copies, EveryWrongDeviceIsFound) {
  for (int to = 0; to < 3; ++to) {
    for (int from = 0; from < 3; ++from) {
      const Json finding = copy_peer(1, memory_of(to), 0, memory_of(from));
      EXPECT_EQ(finding.is_null(), to == 1 && from == 0) << to << from;
      if (finding.is_null()) continue;
      EXPECT_EQ(finding["operands"][0].value("odd", false), from != 0);
      EXPECT_EQ(finding["operands"][1].value("odd", false), to != 1);
      EXPECT_EQ(finding["operands"][0]["device"], Device::cuda(from).name());
      EXPECT_EQ(finding["cause"]["category"],
                to == 0 && from == 1 ? "copy-devices-exchanged" : "copy-device-misstated");
    }
  }
  EXPECT_FALSE(copy_peer(1, memory_of(1), 0, kHost).is_null()) << "host memory is no peer's";
}

// Arrays and variables of the program have no address that the caller knows.
TEST_F(Copies, AnEndWithoutAnAddressIsNowhere) {
  for (auto direction : {Direction::undeclared, Direction::host_to_host, Direction::host_to_device,
                         Direction::device_to_host, Direction::device_to_device})
    EXPECT_TRUE(copy(direction, 0, 0).is_null());
  EXPECT_TRUE(copy_peer(1, 0, 0, 0).is_null());
  EXPECT_TRUE(copy(Direction::host_to_device, 0, kHost).is_null());
  EXPECT_FALSE(copy(Direction::host_to_device, 0, memory_of(1)).is_null()) << "the other end has one";
}

TEST_F(Copies, MemoryThatIsGoneIsNobodys) {
  const uintptr_t gone = kBase + 64 * kChunk;
  memory::ownership::add({gone, kChunk, Device::cuda(2)});
  EXPECT_FALSE(copy(Direction::host_to_host, gone, kHost).is_null());
  memory::ownership::remove(gone);
  EXPECT_TRUE(copy(Direction::host_to_host, gone, kHost).is_null());
}

TEST_F(Copies, ACopyMayNotRunOnIntoAnotherDevicesMemory) {
  EXPECT_TRUE(copy(Direction::device_to_host, kPinned, memory_of(0), kBytes).is_null());
  const Json finding = copy(Direction::device_to_host, kPinned, memory_of(0) + kChunk, kBytes);
  ASSERT_FALSE(finding.is_null());
  EXPECT_EQ(finding["message"], "cudaMemcpy from device to host: its source on cuda:0 runs on into memory of cuda:1");
  EXPECT_EQ(finding["cause"]["category"], "copy-too-long");
  EXPECT_EQ(finding["devices"], Json({"cuda:0", "cuda:1"}));
}

// Expandable segments: one tensor over several mappings of one device.
TEST_F(Copies, MappingsOfOneDeviceSideBySideAreNoOverrun) {
  const uintptr_t base = kBase + 128 * kChunk;
  for (int i = 0; i < 4; ++i)
    memory::ownership::add({base + static_cast<uintptr_t>(i) * kChunk, kChunk, Device::cuda(1)});
  EXPECT_TRUE(copy(Direction::device_to_device, memory_of(0), base, 4 * kChunk).is_null());
  memory::ownership::add({base + 4 * kChunk, kChunk, Device::cuda(0)});
  EXPECT_FALSE(copy(Direction::device_to_device, memory_of(0), base, 4 * kChunk + 1).is_null());
  for (int i = 0; i < 5; ++i) memory::ownership::remove(base + static_cast<uintptr_t>(i) * kChunk);
}

}  // namespace
