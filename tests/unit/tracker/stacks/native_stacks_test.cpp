// Native stacks that are kept for allocations: there is no Python in these tests but where one is started.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <thread>
#include <vector>

#include "tracker/stacks/native/modules.h"
#include "tracker/stacks/native/native.h"
#include "tracker/stacks/stacks.h"

namespace devtrace::stacks {
namespace {

[[gnu::noinline]] StackId taken_below(int depth) {
  const StackId id = depth == 0 ? capture_native_stack() : taken_below(depth - 1);
  asm volatile("");  // not a tail call
  return id;
}

TEST(NativeStacks, OneIdForOneStack) {
  std::set<StackId> ids;
  for (int i = 0; i < 100; ++i) ids.insert(taken_below(3));
  EXPECT_EQ(ids.size(), 1u);
  EXPECT_TRUE(is_native(*ids.begin()));
  EXPECT_NE(taken_below(4), *ids.begin());
  EXPECT_TRUE(resolve(*ids.begin()).empty()) << "it is no Python stack";
}

TEST(NativeStacks, NamesItsFramesInnermostFirst) {
  const auto frames = resolve_native(taken_below(2), false);
  const auto name = [&](size_t i) { return frames.at(i).function; };
  const auto first = std::find_if(frames.begin(), frames.end(), [](const NativeFrame& frame) {
    return frame.function.find("taken_below") != std::string::npos;
  });
  ASSERT_NE(first, frames.end());
  const auto at = static_cast<size_t>(first - frames.begin());
  EXPECT_EQ(name(at), name(at + 1));
  EXPECT_EQ(name(at), name(at + 2));
  EXPECT_NE(name(at), name(at + 3));
  EXPECT_NE(name(at + 3).find("NamesItsFrames"), std::string::npos);
}

TEST(NativeStacks, StatementsAreToldApart) {
  StackId first = 0, second = 0;
  for (int i = 0; i < 2; ++i) {
    first = taken_below(1);
    second = taken_below(1);
  }
  EXPECT_NE(statement_of(first), 0u);
  EXPECT_NE(statement_of(first), statement_of(second));
  EXPECT_EQ(statement_of(17), 17u) << "of Python's a stack is the statement";
  EXPECT_EQ(statement_of(0), 0u);
}

TEST(NativeStacks, ManyThreadsAgree) {
  std::vector<StackId> ids(8);
  std::vector<std::thread> threads;
  for (StackId& id : ids)
    threads.emplace_back([&id] {
      for (int i = 0; i < 1000; ++i) id = taken_below(i % 7);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::set<StackId>(ids.begin(), ids.end()).size(), 1u);
}

TEST(NativeStacks, WhoseModuleItIs) {
  for (const char* path : {"/usr/lib/x86_64-linux-gnu/libstdc++.so.6", "/opt/torch/lib/libtorch_cpu.so", "/x/libc10.so",
                           "/usr/bin/python3.11", "/x/libcudart.so.13", "/x/libcublasLt.so.13",
                           "/usr/lib/python3.11/lib-dynload/_ctypes.so"})
    EXPECT_FALSE(may_be_the_users(path)) << path;
  for (const char* path : {"/home/u/build/solver", "/home/u/libcustom_ops.so", "/home/u/libcurves.so", ""})
    EXPECT_TRUE(may_be_the_users(path)) << path;
}

}  // namespace
}  // namespace devtrace::stacks
