// What is kept of a run's output.
#include "fix/record/output.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <iterator>

namespace devtrace::fix {
namespace {

constexpr int kMiB = 1 << 20;

class OutputTest : public testing::Test {
 protected:
  OutputTest() : file_(testing::TempDir() + "output-" + std::to_string(getpid())) {}
  ~OutputTest() override { std::remove(file_.c_str()); }

  void print(const std::string& text) { std::ofstream(file_, std::ios::binary | std::ios::app) << text; }
  int64_t on_disk() const {
    struct stat is {};
    return stat(file_.c_str(), &is) == 0 ? is.st_blocks * 512 : -1;
  }

  std::string file_;
};

TEST_F(OutputTest, OfALongOneTheEndsAreKept) {
  print("the beginning\n");
  const int writer = open(file_.c_str(), O_WRONLY | O_APPEND);
  std::string chunk(kMiB - 1, 'x');
  chunk += '\n';
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(write(writer, chunk.data(), chunk.size()), kMiB);
    keep_ends(file_);
    EXPECT_LT(on_disk(), 20 * kMiB);
  }
  const std::string last = "ValueError: the end\n==7==devtrace: 1 finding\n\n";
  ASSERT_EQ(write(writer, last.data(), last.size()), static_cast<ssize_t>(last.size()));
  close(writer);
  EXPECT_EQ(last_line(file_), "ValueError: the end");
  EXPECT_GT(not_kept(file_), 80u * kMiB);
  std::ifstream in(file_);
  std::string first;
  std::getline(in, first);
  EXPECT_EQ(first, "the beginning");
  in.seekg(-kMiB / 2, std::ios::end);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}).find('\0'), std::string::npos);
}

TEST_F(OutputTest, AShortOneStaysAsItIs) {
  print("one\ntwo\n \n");
  keep_ends(file_);
  EXPECT_EQ(last_line(file_), "two");
  EXPECT_EQ(not_kept(file_), 0u);
}

TEST_F(OutputTest, WithoutAFileNothingIsSaid) {
  keep_ends(file_);
  EXPECT_EQ(last_line(file_), "");
  EXPECT_EQ(not_kept(file_), 0u);
}

}  // namespace
}  // namespace devtrace::fix
