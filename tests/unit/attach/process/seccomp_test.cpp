#include "attach/process/seccomp.h"

#include <gtest/gtest.h>

#include <map>

using devtrace::attach::have_same_filters;
using devtrace::process::Status;

namespace {

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
