// What a host can still give, by files like those of /proc and /sys.
#include "simulate/model/memory/host_memory.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace {

using devtrace::simulate::host_available;

class HostMemory : public testing::Test {
 protected:
  void SetUp() override {
    root_ = testing::TempDir() + "host_memory";
    std::filesystem::remove_all(root_);
    write("/proc/meminfo", "MemTotal: 16000 kB\nMemFree: 100 kB\nMemAvailable: 8000 kB\n");
  }
  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  std::string root_;
};

TEST_F(HostMemory, NothingIsKnownWithoutItsFiles) {
  EXPECT_EQ(host_available(root_ + "/none"), std::nullopt);
}

TEST_F(HostMemory, IsWhatTheKernelCallsAvailable) {
  EXPECT_EQ(host_available(root_), 8000u * 1024);
  write("/proc/self/cgroup", "0::/\n");
  write("/sys/fs/cgroup/memory.max", "max\n");
  write("/sys/fs/cgroup/memory.current", "5\n");
  EXPECT_EQ(host_available(root_), 8000u * 1024);
}

TEST_F(HostMemory, TheSmallestLimitOnTheWayUpCounts) {
  write("/proc/self/cgroup", "1:cpu:/other\n0::/job/step\n");
  write("/sys/fs/cgroup/job/step/memory.max", "max\n");
  write("/sys/fs/cgroup/job/memory.max", "5000000\n");
  write("/sys/fs/cgroup/job/memory.current", "3000000\n");
  write("/sys/fs/cgroup/job/memory.stat", "anon 1\ninactive_file 1000000\n");
  EXPECT_EQ(host_available(root_), 3000000u);
  write("/sys/fs/cgroup/job/step/memory.max", "2000\n");
  write("/sys/fs/cgroup/job/step/memory.current", "9000\n");
  EXPECT_EQ(host_available(root_), 0u);
}

TEST_F(HostMemory, TheFirstVersionHasOtherNames) {
  write("/proc/self/cgroup", "9:cpuset,memory:/docker/abc\n");
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "7000000\n");  // seen from inside the container
  write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "1000000\n");
  EXPECT_EQ(host_available(root_), 6000000u);
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(host_available(root_), 8000u * 1024);
}

}  // namespace
