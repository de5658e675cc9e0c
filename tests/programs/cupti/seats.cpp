// Who may subscribe, and what leaving means while calls are under way.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <map>
#include <memory>

#include "tests/programs/cupti/subscriber.h"

namespace {

void count(void* userdata, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {
  ++*static_cast<std::atomic<int>*>(userdata);
}

#if CUPTI_API_VERSION >= 130000
CUptiResult subscribe(CUpti_SubscriberHandle* handle, void* userdata, const char* name, std::string* in_the_way) {
  char old[CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN] = {};
  CUpti_SubscriberParams p = {CUpti_SubscriberParams_STRUCT_SIZE, name, old, sizeof old};
  CUptiResult e = cuptiSubscribe_v2(handle, count, userdata, &p);
  *in_the_way = old;
  return e;
}
#endif

}  // namespace

TEST(Seats, One) {
  std::atomic<int> calls{0};
  CUpti_SubscriberHandle second = nullptr;
  {
    Subscriber s;
    EXPECT_EQ(cuptiSubscribe(&second, count, &calls), CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
  }
  ASSERT_EQ(cuptiSubscribe(&second, count, &calls), CUPTI_SUCCESS);
  EXPECT_EQ(cuptiEnableDomain(1, second, CUPTI_CB_DOMAIN_RUNTIME_API), CUPTI_SUCCESS);
  cudaGetLastError();
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(cuptiFinalize(), CUPTI_SUCCESS);
  cudaGetLastError();
  EXPECT_EQ(calls, 2);
  Subscriber s;  // the seat is free again
}

#if CUPTI_API_VERSION >= 130000
TEST(Seats, WhoIsInTheWayHasAName) {
  std::atomic<int> calls{0};
  CUpti_SubscriberHandle first, second;
  std::string in_the_way;
  ASSERT_EQ(subscribe(&first, &calls, "this test", &in_the_way), CUPTI_SUCCESS);
  EXPECT_EQ(subscribe(&second, &calls, "other", &in_the_way), CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
  EXPECT_EQ(in_the_way, "CUPTI for this test");
  CUpti_SubscriberParams short_of = {1, nullptr, nullptr, 0};
  EXPECT_EQ(cuptiUnsubscribe(first), CUPTI_SUCCESS);
  EXPECT_EQ(cuptiSubscribe_v2(&first, count, &calls, &short_of), CUPTI_ERROR_INVALID_PARAMETER);
  EXPECT_EQ(cuptiSubscribe_v2(&first, count, &calls, nullptr), CUPTI_SUCCESS);
}

// Run with DEVTRACE_SIM_CUPTI_SUBSCRIBERS=2.
TEST(Seats, SeveralIfAllComeTheNewWay) {
  setenv("DEVTRACE_SIM_CUPTI_SUBSCRIBERS", "2", 1);
  std::atomic<int> first_calls{0}, second_calls{0};
  CUpti_SubscriberHandle first, second, third;
  std::string in_the_way;
  ASSERT_EQ(subscribe(&first, &first_calls, "first", &in_the_way), CUPTI_SUCCESS);
  EXPECT_EQ(cuptiSubscribe(&third, count, &first_calls), CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
  ASSERT_EQ(subscribe(&second, &second_calls, "second", &in_the_way), CUPTI_SUCCESS);
  EXPECT_EQ(subscribe(&third, &first_calls, "third", &in_the_way), CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
  EXPECT_EQ(cuptiEnableDomain(1, first, CUPTI_CB_DOMAIN_RUNTIME_API), CUPTI_SUCCESS);
  EXPECT_EQ(cuptiEnableCallback(1, second, CUPTI_CB_DOMAIN_RUNTIME_API, RUNTIME(cudaGetLastError_v3020)),
            CUPTI_SUCCESS);
  cudaGetLastError();
  cudaPeekAtLastError();
  EXPECT_EQ(first_calls, 4);
  EXPECT_EQ(second_calls, 2);
  EXPECT_EQ(cuptiUnsubscribe(first), CUPTI_SUCCESS);
  cudaGetLastError();
  EXPECT_EQ(first_calls, 4);
  EXPECT_EQ(second_calls, 4);
}
#endif

TEST(Threads, EachIsToldOnItsOwnAndInPairs) {
  thread_local int depth = 0;
  std::atomic<int> wrong{0};
  Subscriber s([&](const Event& e, const void*) {
    if (e.site == CUPTI_API_ENTER)
      *e.data = static_cast<uint64_t>(++depth);
    else if (*e.data != static_cast<uint64_t>(depth--))
      ++wrong;
  });
  s.domain(CUPTI_CB_DOMAIN_RUNTIME_API);
  s.domain(CUPTI_CB_DOMAIN_DRIVER_API);
  constexpr int kThreads = 8, kCalls = 300;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      void* p = nullptr;
      cudaSetDevice(t % 2);
      for (int i = 0; i < kCalls; ++i) {
        cudaMalloc(&p, 64);
        cudaMemset(p, t, 64);
        cudaFree(p);
      }
      if (depth) ++wrong;
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
  std::map<std::thread::id, int> allocations;
  for (const Event& e : s.events())
    if (e.name == "cuMemAlloc_v2" && e.site == CUPTI_API_EXIT) ++allocations[e.thread];
  EXPECT_EQ(allocations.size(), static_cast<size_t>(kThreads));
  for (auto& [thread, n] : allocations) EXPECT_EQ(n, kCalls);
}

// After cuptiUnsubscribe no callback begins, and none is still under way.
TEST(Threads, LeavingWhileOthersAreInside) {
  struct Life {
    std::atomic<bool> alive{true};
    std::atomic<int> late{0}, calls{0};
  };
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      void* p = nullptr;
      cudaMalloc(&p, 64);
      while (!stop) cudaMemset(p, 0, 8);
    });
  int heard = 0;
  for (int i = 0; i < 200 && !testing::Test::HasFailure(); ++i) {
    auto life = std::make_unique<Life>();
    CUpti_SubscriberHandle handle;
    auto on_callback = [](void* userdata, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {
      auto* l = static_cast<Life*>(userdata);
      if (!l->alive) ++l->late;
      ++l->calls;
      std::this_thread::yield();
      if (!l->alive) ++l->late;
    };
    EXPECT_EQ(cuptiSubscribe(&handle, on_callback, life.get()), CUPTI_SUCCESS);
    EXPECT_EQ(cuptiEnableDomain(1, handle, CUPTI_CB_DOMAIN_RUNTIME_API), CUPTI_SUCCESS);
    for (int spins = 0; spins < 100 && !life->calls; ++spins) std::this_thread::yield();
    EXPECT_EQ(cuptiUnsubscribe(handle), CUPTI_SUCCESS);
    life->alive = false;
    heard += life->calls;
    if (i % 20 == 0) std::this_thread::yield();
    EXPECT_EQ(life->late, 0);
  }
  stop = true;
  for (std::thread& t : threads) t.join();
  EXPECT_GT(heard, 200);
}

TEST(Threads, ASubscriberMayLeaveFromInsideItsCallback) {
  static CUpti_SubscriberHandle handle;
  static std::atomic<int> calls{0};
  auto on_callback = [](void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {
    if (++calls == 1) {
      EXPECT_EQ(cuptiUnsubscribe(handle), CUPTI_SUCCESS);
    }
  };
  ASSERT_EQ(cuptiSubscribe(&handle, on_callback, nullptr), CUPTI_SUCCESS);
  ASSERT_EQ(cuptiEnableDomain(1, handle, CUPTI_CB_DOMAIN_RUNTIME_API), CUPTI_SUCCESS);
  cudaGetLastError();
  cudaGetLastError();
  EXPECT_EQ(calls, 1);
  Subscriber s;
}

// Whatever the other threads were in the middle of: a child can leave, and subscribe again.
TEST(Threads, AChildOfAForkIsAlone) {
  std::atomic<bool> stop{false};
  std::atomic<int> calls{0};
  CUpti_SubscriberHandle handle;
  ASSERT_EQ(cuptiSubscribe(&handle, count, &calls), CUPTI_SUCCESS);
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      for (unsigned i = 0; !stop; ++i) {
        cudaGetLastError();
        if (t == 0) cuptiEnableDomain(i % 2, handle, CUPTI_CB_DOMAIN_RUNTIME_API);
      }
    });
  for (int i = 0; i < 50; ++i) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      alarm(20);
      const bool left = cuptiUnsubscribe(handle) == CUPTI_SUCCESS;
      _exit(left && cuptiSubscribe(&handle, count, &calls) == CUPTI_SUCCESS ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  stop = true;
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(cuptiUnsubscribe(handle), CUPTI_SUCCESS);
}

// The driver may be called in a callback, and says so again.
TEST(Threads, CallsInsideACallbackAreCalls) {
  thread_local int depth = 0;
  int inner = 0;
  Subscriber s([&](const Event& e, const void*) {
    if (e.name == "cudaPeekAtLastError") ++inner;
    if (depth || e.site == CUPTI_API_EXIT) return;
    ++depth;
    cudaPeekAtLastError();
    --depth;
  });
  s.domain(CUPTI_CB_DOMAIN_RUNTIME_API);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(inner, 2);
}
