// A run, read from what it left.
#include "fix/record/outcome.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <tuple>

#include "fix/record/output.h"
#include "fix/trials/workspace.h"

namespace devtrace::fix {
namespace {

namespace fs = std::filesystem;

void write(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << text;
}

TEST(Outcome, OfSeveralProcesses) {
  const Workspace workspace;
  const fs::path run = workspace.make("run-1");
  const std::string process = R"({"record":"process","schema":1,"pid":1,"command":["python"]})"
                              "\n";
  write(
      run / "devtrace-1.jsonl",
      process +
          R"({"record":"finding","id":1,"kind":"refused-op","fingerprint":"b","time":20})"
          "\n"
          R"({"record":"finding","id":2,"kind":"refused-op","fingerprint":"n","time":5,"severity":"note"})"
          "\n"
          R"({"record":"finding","id":3,"kind":"refused-op","fingerprint":"s","time":6,"suppressed":{"file":"f"}})"
          "\n"
          R"({"record":"placement","id":1,"root":"Net","entries":[{"name":"w","kind":"parameter","device":"cpu"}]})"
          "\n"
          R"({"record":"placement","id":2,"root":"Net","entries":[{"name":"w","kind":"parameter","device":"cuda:0"}]})"
          "\n"
          R"({"record":"traffic","id":1,"from":"cpu","to":"cuda:0","bytes":10,"copies":1})"
          "\n"
          R"({"record":"traffic","id":1,"from":"cpu","to":"cuda:0","bytes":30,"copies":3})"
          "\n");
  write(run / "devtrace-2.jsonl", process +
                                      R"({"record":"finding","id":1,"kind":"refused-op","fingerprint":"a","time":10})"
                                      "\n"
                                      R"({"record":"traffic","id":1,"from":"cpu","to":"cuda:1","bytes":12,"copies":1})"
                                      "\n{\"torn");
  write(
      run / "summary/1.json",
      R"({"pid":1,"launches":{"cuda:0":5,"cuda:1":1},"values":true,"not_computed":{"kernels":{"k":2},"operators":{}}})");
  write(
      run / "summary/2.json",
      R"({"pid":2,"launches":{"cuda:0":2},"values":true,"not_computed":{"kernels":{"k":1},"operators":{"o":"why"}}})");
  write(run / "summary/3.json", "{\"torn");
  const Outcome outcome = read_outcome(run);
  ASSERT_EQ(outcome.findings.size(), 2u);
  EXPECT_EQ(outcome.findings[0].finding.fingerprint, "a");
  EXPECT_EQ(outcome.findings[1].process, R"({"record":"process","schema":1,"pid":1,"command":["python"]})");
  EXPECT_EQ(outcome.findings[1].interpreter, "python");
  EXPECT_EQ(outcome.processes, 2);
  EXPECT_EQ(outcome.bytes, 42u);
  EXPECT_EQ(outcome.placement, (std::map<std::string, std::set<std::string>>{{"Net w", {"cpu", "cuda:0"}}}));
  EXPECT_EQ(outcome.launches, (std::map<std::string, uint64_t>{{"cuda:0", 7}, {"cuda:1", 1}}));
  EXPECT_EQ(outcome.not_computed, (std::vector<std::string>{"k", "o"}));
  EXPECT_TRUE(outcome.values);
}

TEST(Outcome, RanksThatComeToNoEnd) {
  const Workspace workspace;
  const auto found = [&](const char* run, const std::string& record) {
    const fs::path folder = workspace.make(run);
    write(folder / "devtrace-1.jsonl", R"({"record":"process","schema":1,"pid":1})"
                                       "\n" +
                                           record + "\n{\"torn");
    return found_dead_end(folder);
  };
  EXPECT_TRUE(found("a", R"({"record":"finding","kind":"collective-stalled","severity":"error"})"));
  EXPECT_TRUE(found("b", R"({"record":"finding","kind":"collective-mismatch","severity":"error"})"));
  EXPECT_FALSE(found("c", R"({"record":"finding","kind":"collective-stalled","severity":"note"})"));
  EXPECT_FALSE(found("d", R"({"record":"finding","kind":"collective-stalled","suppressed":{"file":"f"}})"));
  EXPECT_FALSE(found("e", R"({"record":"finding","kind":"refused-op","message":"collective-stalled"})"));
  EXPECT_FALSE(found_dead_end(workspace.make("empty")));
}

TEST(Outcome, ALineThatCopies) {
  const Workspace workspace;
  const fs::path run = workspace.make("run-1");
  write(run / "devtrace-1.jsonl",
        R"({"record":"process","schema":1,"pid":1,"command":["a.out"]})"
        "\n"
        R"({"record":"traffic","id":1,"bytes":30,"copies":3,"python":[{"file":"/lib/torch.py","line":1},)"
        R"({"file":"/p/a.py","line":7,"project":true},{"file":"/p/b.py","line":9,"project":true}]})"
        "\n"
        R"({"record":"traffic","id":2,"bytes":5,"python":[{"file":"/lib/torch.py","line":1}]})"
        "\n");
  const Outcome outcome = read_outcome(run);
  EXPECT_EQ(outcome.bytes, 35u);
  ASSERT_EQ(outcome.copy_sites.size(), 1u) << "no edit has added a line of a library";
  const CopySite& site = outcome.copy_sites.front();
  EXPECT_EQ(std::tie(site.file, site.line, site.bytes, site.copies), std::tuple("/p/a.py", 7, 30u, 3u));
}

TEST(Outcome, OfARunThatLeftNothing) {
  const Workspace workspace;
  const Outcome outcome = read_outcome(workspace.make("run-1"));
  EXPECT_TRUE(outcome.findings.empty());
  EXPECT_FALSE(outcome.clean());
}

// ---- what is kept of its output

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
    ASSERT_EQ(::write(writer, chunk.data(), chunk.size()), kMiB);
    keep_ends(file_);
    EXPECT_LT(on_disk(), 20 * kMiB);
  }
  const std::string last = "ValueError: the end\n==7==devtrace: 1 finding\n\n";
  ASSERT_EQ(::write(writer, last.data(), last.size()), static_cast<ssize_t>(last.size()));
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

TEST_F(OutputTest, WhatDiffersFromRunToRunIsNotCompared) {
  print("Loading:   0%\rLoading: 100% [00:01, 71it/s]\nmodel on cuda:1\nloss 1.6\n");
  const size_t one = printed(file_);
  std::ofstream(file_) << "Loading:   0%\rLoading: 100% [00:02, 68it/s]\nmodel on cuda:12\nloss 1.6\n";
  EXPECT_EQ(printed(file_), one);
  std::ofstream(file_) << "model on cuda:1\nloss 1.7\n";
  EXPECT_NE(printed(file_), one);
}

TEST_F(OutputTest, OfSeveralRanksNeitherTheOrderNorTheirLogsAreCompared) {
  print(
      "W1127 12:20:29.908000 25213 torch/distributed/run.py:851] *****\n"
      "total -14.5[rank1]:[W1127 12:04:17.2 ProcessGroupNCCL.cpp:1826] [PG ID 0] closed\n"
      "rank 1: 2.0\n");
  const size_t one = printed(file_);
  std::ofstream(file_) << "rank 1: 2.0\nI0101 01:02:03.4 7 a.cpp:1] *****\ntotal -14.5\n\n";
  EXPECT_EQ(printed(file_), one);
  std::ofstream(file_) << "rank 1: 2.0\ntotal -14.6\n";
  EXPECT_NE(printed(file_), one);
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
