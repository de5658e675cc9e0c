// What devtrace fix --apply does to files.
#include "cli/fix/apply.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "cli/subcommand.h"

namespace fs = std::filesystem;
using devtrace::cli::apply;
using devtrace::cli::Failure;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

class ApplyTest : public testing::Test {
 protected:
  ApplyTest() : folder_(fs::path(testing::TempDir()) / ("apply-" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
  }
  ~ApplyTest() override { fs::remove_all(folder_); }

  std::string put(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }
  static std::string text(const std::string& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static struct stat status(const std::string& path) {
    struct stat is {};
    EXPECT_EQ(lstat(path.c_str(), &is), 0);
    return is;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& entry : fs::directory_iterator(folder_)) all.push_back(entry.path().filename());
    std::sort(all.begin(), all.end());
    return all;
  }

  fs::path folder_;
};

std::string complaint(const std::map<std::string, std::string>& before,
                      const std::map<std::string, std::string>& after) {
  try {
    apply(before, after);
  } catch (const Failure& failure) {
    return failure.what();
  }
  return "none";
}

TEST_F(ApplyTest, NoFileIsWrittenWhereOneHasChanged) {
  const std::string one = put("one", "1\n"), other = put("other", "saved meanwhile\n");
  EXPECT_THAT(complaint({{one, "1\n"}, {other, "2\n"}}, {{one, "new\n"}, {other, "new\n"}}), HasSubstr(other));
  EXPECT_EQ(text(one), "1\n");
  EXPECT_EQ(text(other), "saved meanwhile\n");
  EXPECT_THAT(names(), ElementsAre("one", "other"));
}

TEST_F(ApplyTest, NoFileIsWrittenWhereOneIsGone) {
  const std::string one = put("one", "1\n"), other = (folder_ / "other").string();
  EXPECT_THAT(complaint({{one, "1\n"}, {other, "2\n"}}, {{one, "new\n"}, {other, "new\n"}}), HasSubstr(other));
  EXPECT_EQ(text(one), "1\n");
}

TEST_F(ApplyTest, OwnerPermissionsAndAttributesStay) {
  const std::string file = put("file", "old\n");
  ASSERT_EQ(chmod(file.c_str(), 0751), 0);
  const bool root = chown(file.c_str(), 1234, 5678) == 0;
  ASSERT_EQ(chmod(file.c_str(), 0751), 0);
  const bool attributes = setxattr(file.c_str(), "user.note", "kept", 4, 0) == 0;
  const struct stat before = status(file);
  apply({{file, "old\n"}}, {{file, "new\n"}});
  EXPECT_EQ(text(file), "new\n");
  EXPECT_NE(status(file).st_ino, before.st_ino) << "it did not change at once";
  EXPECT_EQ(status(file).st_mode, before.st_mode);
  EXPECT_EQ(status(file).st_uid, root ? 1234 : getuid());
  EXPECT_EQ(status(file).st_gid, before.st_gid);
  char value[8] = {};
  const ssize_t kept = getxattr(file.c_str(), "user.note", value, sizeof value);
  EXPECT_EQ(kept, attributes ? 4 : -1);
  EXPECT_THAT(names(), ElementsAre("file"));
}

TEST_F(ApplyTest, HardLinksAndSymbolicLinksStay) {
  const std::string file = put("file", "the old text\n"), other = (folder_ / "hard").string();
  const std::string symbolic = (folder_ / "symbolic").string();
  fs::create_hard_link(file, other);
  fs::create_symlink("file", symbolic);
  apply({{symbolic, "the old text\n"}}, {{symbolic, "new\n"}});
  EXPECT_EQ(text(file), "new\n");
  EXPECT_EQ(text(other), "new\n");
  EXPECT_TRUE(S_ISLNK(status(symbolic).st_mode));
  EXPECT_EQ(status(file).st_ino, status(other).st_ino);
  EXPECT_THAT(names(), ElementsAre("file", "hard", "symbolic"));
}

}  // namespace
