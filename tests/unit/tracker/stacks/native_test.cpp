// Native stacks, what an unwinder may read, and stacks that are kept for allocations: no Python but where one is
// started.
#include "tracker/stacks/native/native.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <link.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/emulated.h"
#include "tracker/python/find_python.h"
#include "tracker/stacks/native/modules.h"
#include "tracker/stacks/native/unwinder_memory.h"
#include "tracker/stacks/stacks.h"

namespace devtrace::stacks {

// Not static, and -rdynamic: a name in the dynamic symbol table.
[[gnu::noinline]] std::vector<void*> exported_function(size_t capacity, size_t skip) {
  std::vector<void*> addresses(capacity);
  addresses.resize(capture_native(addresses.data(), capacity, skip));
  return addresses;
}

namespace {

// Only in .symtab. The line of the call is checked below.
[[gnu::noinline]] std::vector<void*> local_function(size_t capacity, size_t skip) {
  auto addresses = exported_function(capacity, skip);
  asm volatile("");  // not a tail call: this frame must stay
  return addresses;
}
constexpr int kCallLine = __LINE__ - 4;

TEST(NativeStack, InnermostFirstAndNamed) {
  const auto addresses = local_function(64, 0);
  ASSERT_GT(addresses.size(), 5u);
  const auto frames = symbolize(addresses.data(), addresses.size(), false);
  ASSERT_EQ(frames.size(), addresses.size());
  EXPECT_EQ(frames[0].function, "devtrace::stacks::exported_function(unsigned long, unsigned long)");
  EXPECT_EQ(frames[1].function,
            "devtrace::stacks::(anonymous namespace)::local_function(unsigned long, unsigned long)");
  EXPECT_NE(frames[2].function.find("InnermostFirstAndNamed"), std::string::npos);
  EXPECT_EQ(frames[0].mangled, "_ZN8devtrace6stacks17exported_functionEmm");
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(frames[i].address, reinterpret_cast<uintptr_t>(addresses[i]) - 1);
    Dl_info info;
    ASSERT_NE(dladdr(addresses[i], &info), 0);
    EXPECT_EQ(frames[i].offset, frames[i].address - reinterpret_cast<uintptr_t>(info.dli_fbase));
    EXPECT_TRUE(frames[i].module.ends_with("tests/stacks")) << frames[i].module;
    EXPECT_EQ(frames[i].file, "");
  }
}

TEST(NativeStack, LinesWhenAskedFor) {
  const auto addresses = local_function(64, 0);
  const auto frames = symbolize(addresses.data(), addresses.size(), true);
  EXPECT_TRUE(frames[1].file.ends_with("native_test.cpp")) << frames[1].file;
  EXPECT_EQ(frames[1].line, kCallLine);
  for (const NativeFrame& frame : frames) {
    if (frame.module.find("libc.so") != std::string::npos) {
      EXPECT_EQ(frame.file, "");
    }
  }
}

TEST(NativeStack, LinesFromManyThreadsAtOnce) {
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      const auto addresses = local_function(8, 0);
      right += symbolize(addresses.data(), addresses.size(), true)[1].line == kCallLine;
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(right, 8);
}

TEST(NativeStack, SkipAndCapacity) {
  const auto all = local_function(64, 0);
  const auto skipped = local_function(64, 1);
  // From local_function's caller outwards both are the same but for the call's own place in this function.
  ASSERT_EQ(skipped.size() + 1, all.size());
  EXPECT_EQ(skipped[0], all[1]);
  EXPECT_EQ(skipped[3], all[4]);
  EXPECT_EQ(local_function(2, 0).size(), 2u);
  EXPECT_EQ(local_function(0, 0).size(), 0u);
  EXPECT_EQ(local_function(64, 1000).size(), 0u);
}

TEST(NativeStack, AddressesOutsideEveryObjectHaveNoModule) {
  void* nowhere[] = {reinterpret_cast<void*>(0x10), nullptr};
  const auto frames = symbolize(nowhere, 2, true);
  EXPECT_EQ(frames[0].module, "");
  EXPECT_EQ(frames[0].function, "");
  EXPECT_EQ(frames[1].module, "");
}

TEST(NativeStack, LeavesErrnoAndExceptionsAlone) {
  errno = 77;
  local_function(64, 0);
  EXPECT_EQ(errno, 77);
  const std::function<void(int)> deep = [&](int n) {
    if (n == 0) throw std::runtime_error("thrown through captured frames");
    local_function(64, 0);
    deep(n - 1);
  };
  EXPECT_THROW(deep(30), std::runtime_error);
}

TEST(NativeStack, ChildrenOfAForkGoOnWhileThreadsCapture) {
  if (emulated()) GTEST_SKIP() << "under qemu's user mode children of a process with threads hang";
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  // Each new depth is a cold walk, which takes libunwind's locks.
  const std::function<void(int)> deep = [&](int n) { n == 0 ? (void)local_function(200, 0) : deep(n - 1); };
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (int i = t; !stop; ++i) std::thread([&] { deep(i % 40); }).join();  // a new thread has an empty cache
    });
  }
  for (int i = 0; i < 50; ++i) {
    before_fork();
    const pid_t child = fork();
    after_fork();
    if (child == 0) {
      alarm(20);  // a deadlock ends as a signal
      std::thread([&] { deep(41); }).join();
      _exit(local_function(64, 0).size() > 3 ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_EQ(status, 0);
  }
  stop = true;
  for (auto& thread : threads) thread.join();
}

// As whoever unwinds a stack holds it: the child inherits the loader's lock for ever.
TEST(Symbolize, AChildOfAForkDoesNotWaitForTheLoadersLock) {
  std::atomic<bool> held{false}, stop{false};
  std::thread holder([&] {
    const auto hold = [](dl_phdr_info*, size_t, void* flags) {
      auto& [held, stop] = *static_cast<std::pair<std::atomic<bool>*, std::atomic<bool>*>*>(flags);
      *held = true;
      while (!*stop) std::this_thread::yield();
      return 1;
    };
    std::pair<std::atomic<bool>*, std::atomic<bool>*> flags{&held, &stop};
    dl_iterate_phdr(hold, &flags);
  });
  while (!held) std::this_thread::yield();
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);  // a deadlock ends as a signal
    // lfind: no sanitizer has one of its own.
    void* const addresses[] = {reinterpret_cast<void*>(&local_function),
                               reinterpret_cast<void*>(dlsym(RTLD_DEFAULT, "lfind"))};
    std::vector<void*> behind;
    for (void* address : addresses) behind.push_back(static_cast<char*>(address) + 1);
    const auto frames = symbolize(behind.data(), behind.size(), true);
    devtrace::python::Api api;
    devtrace::python::find_python(api);
    const bool named = frames[0].function.find("local_function") != std::string::npos && frames[0].line > 0 &&
                       frames[1].function == "lfind" && frames[1].module.find("libc") != std::string::npos;
    _exit(named && local_function(64, 0).size() > 3 ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  stop = true;
  holder.join();
}

}  // namespace
// Names are kept: not longer than the object is there.
TEST(Symbolize, AnUnloadedObjectHasNoNames) {
  void* const library = dlopen("libBrokenLocale.so.1", RTLD_NOW);
  ASSERT_NE(library, nullptr) << dlerror();
  void* const inside = static_cast<char*>(dlsym(library, "__ctype_get_mb_cur_max")) + 1;
  for (int again = 0; again < 2; ++again) {
    const std::vector<NativeFrame> loaded = symbolize(&inside, 1, false);
    EXPECT_EQ(loaded[0].function, "__ctype_get_mb_cur_max");
    EXPECT_NE(loaded[0].module.find("libBrokenLocale"), std::string::npos);
  }
  ASSERT_EQ(dlclose(library), 0);
  EXPECT_EQ(symbolize(&inside, 1, false)[0].function, "");
}

}  // namespace devtrace::stacks

// Native stacks that are kept for allocations: there is no Python in these tests but where one is started.
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
  EXPECT_NE(call_site_of(first), 0u);
  EXPECT_NE(call_site_of(first), call_site_of(second));
  EXPECT_EQ(call_site_of(17), 17u) << "of Python's a stack is the statement";
  EXPECT_EQ(call_site_of(0), 0u);
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

namespace devtrace::stacks {
namespace {

long probe(const void* address) {
  return unwinder_syscall(SYS_write, -1, address, 1);
}

#ifdef __x86_64__
// What a hook's frame is to devtrace: where the caller of this function goes on, with its pointers.
[[gnu::noinline]] caller::Frame frame_of_caller() {
  const auto* frame = static_cast<const uintptr_t*>(__builtin_frame_address(0));
  return {frame[1], frame[0], reinterpret_cast<uintptr_t>(frame + 2)};
}

// A thread's memory, asked as capture_native_stack asks it. Ids are numbers of stacks in the order in which they came.
struct Remembered {
  LastNativeStacks last;
  std::vector<std::vector<void*>> stacks;
  size_t found = 0, wrong = 0;

  [[gnu::noinline]] uint32_t ask(const caller::Frame& hook) {
    std::vector<void*> addresses(128);
    addresses.resize(capture_native_from_hook(hook, addresses.data(), addresses.size()));
    const auto known = std::find(stacks.begin(), stacks.end(), addresses);
    const auto id = static_cast<uint32_t>(known - stacks.begin() + 1);
    if (known == stacks.end()) stacks.push_back(addresses);
    if (const uint32_t quick = last.find(hook)) {
      ++found;
      wrong += quick != id;
      return quick;
    }
    last.came(hook, id, id, [&](StackWord* words, size_t most) {
      return deciding_words(hook, addresses.data(), addresses.size(), words, most);
    });
    return id;
  }
};

[[gnu::noinline]] void as_hook(Remembered& memory) {
  memory.ask(frame_of_caller());
  asm volatile("");
}

// `bits` calls deep, each by one of two ways: directly, or through the C library, whose frames have no frame pointer.
[[gnu::noinline]] void called(Remembered& memory, unsigned choice, unsigned bits) {
  struct Key {
    Remembered& memory;
    unsigned choice, bits;
  } next{memory, choice / 2, bits - 1};
  const Key* twice[] = {&next, &next};  // compared once
  if (bits == 0)
    as_hook(memory);
  else if (choice % 2 == 0)
    called(memory, next.choice, next.bits);
  else
    std::qsort(twice, 2, sizeof twice[0], [](const void* one, const void*) {
      const auto* const of = *static_cast<const Key* const*>(one);
      called(of->memory, of->choice, of->bits);
      return 0;
    });
  asm volatile("");
}

TEST(LastNativeStacks, FindsWhatCameSeveralTimes) {
  Remembered memory;
  for (int i = 0; i < 10; ++i) called(memory, 5, 3);
  EXPECT_EQ(memory.stacks.size(), 1u);
  EXPECT_EQ(memory.found, 8u);
}

TEST(LastNativeStacks, NeverAnswersWithAnothersId) {
  Remembered memory;
  unsigned number = 1;
  for (int i = 0; i < 20'000; ++i) {
    number = number * 1664525 + 1013904223;
    const unsigned choice = number >> 24, times = 1 + (number >> 16) % 4;
    for (unsigned time = 0; time < times; ++time) called(memory, choice, 20);  // its bits choose the outermost
  }
  EXPECT_EQ(memory.stacks.size(), 256u);
  EXPECT_GT(memory.found, 100u);
  EXPECT_EQ(memory.wrong, 0u);
}

TEST(LastNativeStacks, AVeryDeepOneIsNotKept) {
  Remembered memory;
  for (int i = 0; i < 10; ++i) called(memory, 0, 200);
  EXPECT_EQ(memory.found, 0u);
}
#endif

TEST(UnwinderMemory, TellsWhatCanBeRead) {
  constexpr size_t kPage = 4096;
  auto* pages =
      static_cast<char*>(mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(pages, MAP_FAILED);
  ASSERT_EQ(mprotect(pages + kPage, kPage, PROT_NONE), 0);
  EXPECT_EQ(probe(pages), 1);
  EXPECT_EQ(probe(pages + kPage - 1), 1) << "the last byte before what cannot be read";
  errno = 0;
  EXPECT_EQ(probe(pages + kPage), -1);
  EXPECT_EQ(errno, EFAULT);
  munmap(pages, 2 * kPage);
  EXPECT_EQ(probe(pages), -1);
  EXPECT_EQ(probe(nullptr), -1);
}

TEST(UnwinderMemory, ChangesNoSignalMask) {
  sigset_t before, after;
  sigfillset(&before);
  ASSERT_EQ(sigprocmask(SIG_SETMASK, nullptr, &before), 0);
  const sigset_t full = [] {
    sigset_t all;
    sigfillset(&all);
    return all;
  }();
  EXPECT_EQ(probe(&full), 1);
  ASSERT_EQ(sigprocmask(SIG_SETMASK, nullptr, &after), 0);
  for (int number = 1; number < NSIG; ++number) EXPECT_EQ(sigismember(&before, number), sigismember(&after, number));
}

std::set<std::string> pipes() {
  std::set<std::string> found;
  for (const auto& file : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(file.path(), gone).string();
    if (target.starts_with("pipe:")) found.insert(target);
  }
  return found;
}
const std::set<std::string> from_the_start = pipes();

TEST(UnwinderMemory, LibunwindKeepsNoPipe) {
  void* addresses[8];
  ASSERT_GT(capture_native(addresses, 8, 0), 0u);
  EXPECT_EQ(pipes(), from_the_start);
}

}  // namespace
}  // namespace devtrace::stacks
