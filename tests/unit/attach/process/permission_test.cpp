#include "attach/process/permission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using devtrace::attach::PermissionFacts;
using testing::HasSubstr;
using testing::Not;

namespace {

std::string why(const PermissionFacts& facts) {
  return devtrace::attach::why_refused(42, facts, "devtrace attach 42");
}

constexpr const char* kAsRoot = "sudo devtrace attach 42";

}  // namespace

TEST(Permission, AnotherUsersProcess) {
  EXPECT_THAT(why({.own_user = 1000, .user = 0}), HasSubstr("belongs to another user (uid 0)"));
  EXPECT_THAT(why({.own_user = 1000, .user = 0}), HasSubstr(kAsRoot));
}

TEST(Permission, YamasScopes) {
  EXPECT_THAT(why({.yama = 1}), HasSubstr("ptrace_scope is 1"));
  EXPECT_THAT(why({.yama = 1}), HasSubstr(kAsRoot));
  EXPECT_THAT(why({.yama = 1}), HasSubstr("sudo sysctl kernel.yama.ptrace_scope=0"));
  EXPECT_THAT(why({.yama = 2}), HasSubstr("only who has CAP_SYS_PTRACE"));
  // Root is refused, too.
  EXPECT_THAT(why({.capable = true, .yama = 3}), HasSubstr("ptrace_scope is 3"));
  EXPECT_THAT(why({.capable = true, .yama = 3}), Not(HasSubstr("sudo")));
  EXPECT_THAT(why({.yama = 0}), Not(HasSubstr("ptrace_scope")));
}

TEST(Permission, AProcessThatForbidsIt) {
  EXPECT_THAT(why({.dumpable = false, .yama = 0}), HasSubstr("PR_SET_DUMPABLE"));
  EXPECT_THAT(why({.dumpable = false, .yama = 0}), HasSubstr(kAsRoot));
}

TEST(Permission, AContainer) {
  EXPECT_THAT(why({.capable = false, .yama = 0, .contained = true}), HasSubstr("--cap-add=SYS_PTRACE"));
}

TEST(Permission, AContainersFilter) {
  EXPECT_THAT(why({.capable = true, .yama = 0, .contained = true}), HasSubstr("seccomp=unconfined"));
  EXPECT_THAT(why({.capable = true, .yama = 0, .contained = true}), Not(HasSubstr("--cap-add")));
}

TEST(Permission, ASecurityModule) {
  EXPECT_THAT(why({.capable = true, .yama = 1}), HasSubstr("SELinux"));
}

TEST(Permission, EveryReasonIsOneLine) {
  for (const int yama : {-1, 0, 1, 2, 3})
    for (const bool capable : {false, true})
      for (const bool contained : {false, true})
        for (const bool dumpable : {false, true})
          for (const uid_t user : {0u, 5u}) {
            const std::string text =
                why({.user = user, .capable = capable, .dumpable = dumpable, .yama = yama, .contained = contained});
            EXPECT_FALSE(text.empty());
            EXPECT_EQ(text.find('\n'), text.npos) << text;
          }
}
