#include "tracker/base/static_guards.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

namespace devtrace {
namespace {

std::atomic<int> begun{0};
std::atomic<bool> may_end{false};

int slowly() {
  static const int value = [] {
    ++begun;
    while (!may_end) std::this_thread::yield();
    return 7;
  }();
  return value;
}

TEST(StaticGuards, AForksChildBeginsAnewWhatAnotherThreadWasInitialising) {
  std::vector<std::thread> threads;
  std::atomic<int> sum{0};
  for (int i = 0; i < 4; ++i) threads.emplace_back([&] { sum += slowly(); });
  while (begun == 0) std::this_thread::yield();
  const pid_t child = ::fork();
  if (child == 0) {
    static_guards::after_fork_in_child();
    ::alarm(20);
    may_end = true;
    ::_exit(slowly() == 7 && begun == 2 ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  may_end = true;
  for (std::thread& each : threads) each.join();
  EXPECT_EQ(sum, 28);
  EXPECT_EQ(begun, 1);
}

TEST(StaticGuards, WhatThrewIsTriedAgain) {
  int tries = 0;
  const auto get = [&tries]() -> int {
    static const int value = [](int number) {
      return number < 2 ? throw std::runtime_error("not yet") : number;
    }(++tries);
    return value;
  };
  EXPECT_THROW(get(), std::runtime_error);
  EXPECT_EQ(get(), 2);
  EXPECT_EQ(get(), 2);
  EXPECT_EQ(tries, 2);
}

}  // namespace
}  // namespace devtrace
