// What the kernel, or a seccomp filter, has against attaching to a process.
#include "attach/process/permission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "attach/process/seccomp.h"

using devtrace::attach::have_same_filters;
using devtrace::attach::PermissionFacts;
using devtrace::process::Status;
using testing::HasSubstr;
using testing::Not;

namespace {

std::string why(const PermissionFacts& facts) {
  return devtrace::attach::why_refused(42, facts, "devtrace attach 42");
}

constexpr const char* kAsRoot = "sudo devtrace attach 42";

struct Process {
  pid_t parent;
  int filters, mode = 2;
};

bool same(const std::map<pid_t, Process>& tree, pid_t target, pid_t own) {
  return have_same_filters(target, own, [&](pid_t each) -> std::optional<Status> {
    const auto found = tree.find(each);
    if (found == tree.end()) return std::nullopt;
    Status status;
    status.parent = found->second.parent;
    status.seccomp = found->second.mode;
    status.seccomp_filters = found->second.filters;
    return status;
  });
}

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

TEST(SameFilters, AsManyAsTheProcessThatBothComeFrom) {
  EXPECT_TRUE(same({{1, {0, 0, 0}}, {7, {1, 2}}, {10, {7, 2}}, {11, {10, 2}}, {20, {7, 2}}}, 11, 20));
  EXPECT_TRUE(same({{1, {0, 0, 0}}, {7, {1, 2}}, {10, {7, 2}}}, 7, 10)) << "the target itself started the command";
  EXPECT_TRUE(same({{1, {0, 1}}, {10, {1, 1}}, {20, {1, 1}}}, 10, 20)) << "a container with one of them above all";
}

TEST(SameFilters, OneThatEitherPutItselfIsAnother) {
  EXPECT_FALSE(same({{1, {0, 0, 0}}, {10, {1, 1}}, {20, {1, 1}}}, 10, 20)) << "one each, of their own";
  EXPECT_FALSE(same({{1, {0, 1}}, {10, {1, 2}}, {20, {1, 2}}}, 10, 20));
  EXPECT_FALSE(same({{1, {0, 1}}, {10, {1, 1}}, {20, {1, 2}}}, 10, 20));
  EXPECT_FALSE(same({{1, {0, 1}}, {9, {1, 2}}, {10, {9, 1}}, {20, {1, 1}}}, 10, 20)) << "added after the fork";
  EXPECT_FALSE(same({{1, {0, 0, 0}}, {10, {1, 0, 1}}, {20, {1, 0, 1}}}, 10, 20))
      << "no filter, but read and write alone";
}

TEST(SameFilters, WhoComesInFromOutsideHasTheContainers) {
  EXPECT_TRUE(same({{1, {0, 1}}, {10, {1, 1}}, {19, {0, 1}}, {20, {19, 1}}}, 10, 20));
  EXPECT_FALSE(same({{1, {0, 1}}, {10, {1, 2}}, {19, {0, 2}}, {20, {19, 2}}}, 10, 20)) << "the target has one more";
  EXPECT_FALSE(same({{1, {0, 1}}, {10, {1, 1}}, {19, {0, 0, 0}}, {20, {19, 1}}}, 10, 20)) << "the command's is its own";
}

TEST(SameFilters, WhatCannotBeKnownIsNotTheSame) {
  EXPECT_FALSE(same({{1, {0, -1}}, {10, {1, -1}}, {20, {1, -1}}}, 10, 20)) << "the kernel does not say how many";
  EXPECT_FALSE(same({{1, {0, 1}}, {10, {5, 1}}, {20, {1, 1}}}, 10, 20)) << "a parent that has ended";
}
