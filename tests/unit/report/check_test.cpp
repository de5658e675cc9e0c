#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "report/check/occurrences.h"
#include "report/check/outputs.h"
#include "tests/unit/report/data.h"

namespace devtrace::report::check {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

class Check : public testing::Test {
 protected:
  Check() {
    char name[] = "/tmp/devtrace-check-XXXXXX";
    folder_ = fs::canonical(mkdtemp(name));
  }
  ~Check() override { fs::remove_all(folder_); }

  fs::path write(const std::string& name, const std::string& text) {
    const fs::path file = folder_ / name;
    fs::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text;
    return file;
  }
  static std::string process(int pid, const std::string& more = "") {
    return fmt("{\"record\":\"process\",\"schema\":1,\"pid\":", pid, ",\"start_ticks\":", pid, more, "}\n");
  }
  static std::string finding(int pid, int id, const std::string& more = "") {
    return fmt("{\"record\":\"finding\",\"pid\":", pid, ",\"id\":", id,
               ",\"kind\":\"refused-op\",\"time\":", 1000 - pid, more, "}\n");
  }
  static std::string end(int pid) { return fmt("{\"record\":\"end\",\"pid\":", pid, ",\"dropped\":0}\n"); }

  template <typename... Parts>
  static std::string fmt(const Parts&... parts) {
    std::ostringstream out;
    (out << ... << parts);
    return out.str();
  }

  fs::path folder_;
  Suppressions none_;
  Repository repository_{"/"};
  Collection logs_{repository_, {none_, "2026-01-01"}};
};

TEST_F(Check, ARepetitionIsCountedForItsProcessAndItsId) {
  logs_.read(write("a.jsonl", process(1) + finding(1, 1) + finding(1, 2, ",\"operation\":\"b\"") +
                                  "{\"record\":\"count\",\"pid\":1,\"id\":2,\"count\":8}\n" +
                                  "{\"record\":\"count\",\"pid\":1,\"id\":2,\"count\":4}\n" + end(1)));
  logs_.read(write("b.jsonl", process(2) + finding(2, 1, ",\"operation\":\"b\"") + end(2)));
  ASSERT_THAT(logs_.faults(), SizeIs(2));
  EXPECT_EQ(logs_.faults()[0].occurrences(), 1u);
  EXPECT_EQ(logs_.faults()[1].occurrences(), 9u);
  EXPECT_THAT(logs_.faults()[1].by_process, SizeIs(2));
  EXPECT_THAT(logs_.problems(), IsEmpty());
}

TEST_F(Check, AFingerprintThatIsNoneIsMadeAnew) {
  logs_.read(write("a.jsonl", process(1) + finding(1, 1, ",\"fingerprint\":\"../../etc\"") + end(1)));
  EXPECT_EQ(logs_.faults()[0].fingerprint.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_EQ(logs_.faults()[0].fingerprint.size(), 16u);
}

TEST_F(Check, AProcessThatCalledExecGoesOnInItsLog) {
  logs_.read(
      write("a.jsonl", process(1) + finding(1, 1) + process(1) + finding(1, 1, ",\"operation\":\"b\"") + end(1)));
  EXPECT_THAT(logs_.processes(), SizeIs(1));
  EXPECT_THAT(logs_.faults(), SizeIs(2));
  EXPECT_THAT(logs_.unfinished(), IsEmpty());
}

TEST_F(Check, APidThatIsGivenAgainIsAnotherProcess) {
  const std::string again = "{\"record\":\"process\",\"schema\":1,\"pid\":1,\"start_ticks\":99}\n";
  logs_.read(write("a.jsonl", process(1) + again + end(1)));
  EXPECT_THAT(logs_.processes(), SizeIs(2));
  EXPECT_THAT(logs_.unfinished(), SizeIs(1));
}

TEST_F(Check, AFaultOfWhichOneWitnessIsNotSuppressedIsNotSuppressed) {
  logs_.read(write(
      "a.jsonl", process(1) + finding(1, 1, ",\"suppressed\":{\"line\":3,\"file\":\"s\",\"reason\":\"r\"}") + end(1)));
  ASSERT_TRUE(logs_.faults()[0].suppressed);
  EXPECT_EQ(compare(logs_, {}, none_, "", {}).exit_code(), 0);
  logs_.read(write("b.jsonl", process(2) + finding(2, 1) + end(2)));
  EXPECT_EQ(compare(logs_, {}, none_, "", {}).exit_code(), 1);
}

TEST_F(Check, TheFirstOfOneClock) {
  for (int pid = 1; pid <= 3; ++pid)
    logs_.read(write("a.jsonl", process(pid, ",\"host\":\"pod-" + std::to_string(pid) + "\",\"boot\":\"b\"") +
                                    finding(pid, 1) + end(pid)));
  EXPECT_EQ(who_was_first(logs_.faults()[0], logs_), "first in pod-3, pid 3, 1.0 s before pod-2, pid 2")
      << "containers of one machine have its clock";
}

TEST_F(Check, AWitnessWithoutATimeLeavesTheFirstUnknown) {
  logs_.read(write("a.jsonl", process(1) + finding(1, 1) + end(1)));
  EXPECT_EQ(who_was_first(logs_.faults()[0], logs_), "") << "one witness";
  logs_.read(write("b.jsonl", process(2) + "{\"record\":\"finding\",\"pid\":2,\"kind\":\"refused-op\"}\n" + end(2)));
  EXPECT_THAT(logs_.faults()[0].by_process, SizeIs(2));
  EXPECT_EQ(who_was_first(logs_.faults()[0], logs_), "");
}

TEST_F(Check, FilesAreFoundInTheRepositoryWhereverTheLogWasWritten) {
  write("repo/app/step.py", "");
  write("repo/.venv/lib/python3.11/site-packages/torch/x.py", "");
  Repository repository((folder_ / "repo").string());
  const auto path = [&](std::string_view file, std::string_view cwd) {
    return repository.path_of(file, cwd).value_or("none");
  };
  EXPECT_EQ(path((folder_ / "repo/app/step.py").string(), "/"), "app/step.py");
  EXPECT_EQ(path("app/step.py", (folder_ / "repo").string()), "app/step.py");
  EXPECT_EQ(path("./step.py", (folder_ / "repo/app").string()), "app/step.py");
  EXPECT_EQ(path("/builds/7/app/step.py", "/builds/7"), "app/step.py") << "another checkout";
  EXPECT_EQ(path("app/gone.py", (folder_ / "repo").string()), "app/gone.py") << "of another version of it";
  EXPECT_EQ(path("/builds/7/app/other.py", "/builds/7"), "none");
  EXPECT_EQ(path((folder_ / "repo/.venv/lib/python3.11/site-packages/torch/x.py").string(), "/"), "none");
  EXPECT_EQ(path("<frozen importlib._bootstrap>", (folder_ / "repo").string()), "none");
  EXPECT_EQ(path("../../../../etc/passwd", (folder_ / "repo").string()), "none");
  EXPECT_EQ(path("", ""), "none");
}

TEST_F(Check, AGitWorkTreeIsFoundFromBelow) {
  write("repo/.git", "gitdir: elsewhere\n");
  write("repo/a/b/x", "");
  const fs::path before = fs::current_path();
  fs::current_path(folder_ / "repo/a/b");
  const fs::path root = Repository("").root();
  fs::current_path(before);
  EXPECT_EQ(root, folder_ / "repo");
}

TEST_F(Check, AnUpdatedBaselineReadsTheSameAgain) {
  logs_.read(
      write("a.jsonl", process(1) + finding(1, 1) + finding(1, 2, ",\"operation\":\"b\\u0000\\u001b\"") + end(1)));
  const std::string first = updated({}, logs_, {}, false);
  const Baseline again = read_baseline(write("known.json", first).string());
  EXPECT_THAT(again.findings, SizeIs(2));
  EXPECT_EQ(updated(again, logs_, {}, false), first);
  EXPECT_EQ(compare(logs_, again, none_, "", {}).exit_code(), 0);
}

TEST_F(Check, ASuppressedFindingIsNotTakenUpAndAKnownOneStays) {
  logs_.read(write("a.jsonl", process(1) + finding(1, 1) + end(1)));
  const std::string fingerprint = logs_.faults()[0].fingerprint;
  EXPECT_THAT(updated({}, logs_, {fingerprint}, false), Not(HasSubstr(fingerprint)));
  Baseline known;
  known.findings[fingerprint] = {{"fingerprint", fingerprint}, {"note", "mine"}};
  EXPECT_THAT(updated(known, logs_, {fingerprint}, false), HasSubstr("mine"));
}

TEST_F(Check, EveryOutputTakesHostileRecords) {
  logs_.read(write("a.jsonl", test::file("hostile.jsonl")));
  ASSERT_THAT(logs_.faults(), Not(IsEmpty()));
  const Comparison judged = compare(logs_, {}, none_, "", {});
  const Result result{logs_, judged, "/"};
  const std::string xml = junit(result);
  for (const char c : xml) EXPECT_TRUE(static_cast<unsigned char>(c) >= 0x20 || c == '\n') << int(c);
  EXPECT_THAT(xml, Not(HasSubstr("<script>")));
  EXPECT_TRUE(Json::accept(sarif(result)));
  std::istringstream commands(github(result));
  for (std::string line; std::getline(commands, line);) EXPECT_THAT(line, StartsWith("::error "));
  EXPECT_THAT(check_text(result, false), Not(HasSubstr("\033")));
  EXPECT_THAT(check_markdown(result), Not(HasSubstr("\033")));
  size_t pieces = 0;
  check_html(result, [&](std::string_view text) {
    ++pieces;
    if (pieces > 1) {
      EXPECT_EQ(text.find("<script>document"), text.npos);
    }
  });
  EXPECT_GT(pieces, 3u);
}

TEST_F(Check, ReasonsRankNewBeforeUnread) {
  Comparison judged;
  EXPECT_EQ(judged.exit_code(), 0);
  judged.problems.push_back("a log");
  EXPECT_EQ(judged.exit_code(), 2);
  judged.traffic.push_back({"site", {}, {}, true});
  EXPECT_EQ(judged.exit_code(), 1);
}

}  // namespace
}  // namespace devtrace::report::check
