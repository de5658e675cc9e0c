// What devtrace attach and top show while they stay.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <fstream>

#include "cli/live/device_memory.h"
#include "cli/live/live_lines.h"
#include "cli/live/live_log.h"

namespace live = devtrace::cli::live;
using devtrace::LiveMemory;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using namespace std::chrono_literals;

namespace {

constexpr uint64_t kMiB = 1 << 20;

class LiveLogTest : public testing::Test {
 protected:
  LiveLogTest() : path_(testing::TempDir() + "live-" + std::to_string(getpid()) + ".jsonl") {
    std::ofstream(path_).close();
  }
  ~LiveLogTest() override { std::remove(path_.c_str()); }

  void append(const std::string& text) { std::ofstream(path_, std::ios::app) << text; }
  void moved(uint64_t bytes) {
    append(R"({"record":"traffic","pid":7,"id":1,"from":"cuda:1","to":"cpu","bytes":)" + std::to_string(bytes) +
           R"(,"copies":1,"python":[{"file":"/p/serve.py","line":77,"function":"step"}]})"
           "\n");
  }

  std::string path_;
};

TEST_F(LiveLogTest, SaysHowMuchACallSiteMovesASecondAndThatItHasStopped) {
  live::LiveLog log(7, path_);
  const auto start = live::LiveLog::Clock::now();
  append(R"({"record":"process","pid":7,"cwd":"/p"})"
         "\n");
  moved(100 * kMiB);
  log.read(start);
  ASSERT_EQ(log.sites().size(), 1u);
  EXPECT_EQ(log.sites().at(1).rate(start), 0u);  // nothing to compare it with yet
  moved(300 * kMiB);
  log.read(start + 2s);
  EXPECT_EQ(log.sites().at(1).rate(start + 2s), 100 * kMiB);
  EXPECT_THAT(live::row_of(log.sites().at(1), start + 2s), HasSubstr("cuda:1 → cpu"));
  EXPECT_THAT(live::row_of(log.sites().at(1), start + 2s), HasSubstr("100 MiB/s"));
  EXPECT_THAT(live::row_of(log.sites().at(1), start + 2s), HasSubstr("step (serve.py:77)"));
  EXPECT_EQ(log.sites().at(1).rate(start + 6s), 0u);
}

TEST_F(LiveLogTest, ReadsALineOnlyWhenItIsWritten) {
  live::LiveLog log(7, path_);
  append(R"({"record":"count","pid":7,"id":3,)");
  EXPECT_THAT(log.read().lines, IsEmpty());
  append("\"count\":2}\n{\"record\":\"count\",\"pid\":8,\"id\":3,\"count\":5}\nno record\n");
  EXPECT_THAT(log.read().lines, ElementsAre("finding 3: 2 times"));
  EXPECT_THAT(log.read().lines, IsEmpty());
}

TEST(LiveMemoryRows, ArePyTorchsWhereItSaysSomething) {
  LiveMemory memory;
  memory.devices[0].tensors = 3 * kMiB;
  memory.devices[0].peak = 5 * kMiB;
  memory.devices[0].reserved = memory.devices[0].allocated = memory.devices[0].allocated_peak = 20 * kMiB;
  memory.devices[2].allocated = kMiB;
  memory.devices[2].allocated_peak = 4 * kMiB;
  const auto rows = live::rows_of(memory);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].text, "memory of cuda:0: tensors 3.0 MiB, peak 5.0 MiB; PyTorch holds 20 MiB");
  EXPECT_EQ(rows[1].text, "memory of cuda:2: allocated 1.0 MiB, peak 4.0 MiB, as far as is known");
}

TEST(LiveMemoryRows, AreALineOnlyWhenMuchHasChanged) {
  LiveMemory memory;
  live::MemoryChanges changes;
  LiveMemory::Device& device = memory.devices[1];
  device = {100 * kMiB, 200 * kMiB, 100 * kMiB, 0, 0};
  EXPECT_EQ(changes.since_last(memory).size(), 1u);
  device.tensors = 105 * kMiB;
  EXPECT_THAT(changes.since_last(memory), IsEmpty());
  device.tensors = 115 * kMiB;
  EXPECT_EQ(changes.since_last(memory).size(), 1u);
  EXPECT_THAT(changes.since_last(memory), IsEmpty());
  device.tensors = 0;
  EXPECT_EQ(changes.since_last(memory).size(), 1u);
}

TEST(LiveLines, AreCutBetweenCharacters) {
  EXPECT_EQ(live::cut("a → b", 3), "a →");
  EXPECT_EQ(live::cut("a → b", 2), "a ");
  EXPECT_EQ(live::cut("ab", 5), "ab");
  EXPECT_EQ(live::cut("", 5), "");
}

}  // namespace
