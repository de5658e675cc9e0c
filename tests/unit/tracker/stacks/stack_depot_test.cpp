// Stacks that are kept, and what is remembered of the last one.
#include "tracker/stacks/stack_depot.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tracker/base/spinlock.h"
#include "tracker/stacks/code_generations.h"
#include "tracker/stacks/hash.h"
#include "tracker/stacks/id_cache.h"
#include "tracker/stacks/known_frames.h"
#include "tracker/stacks/last_stack.h"

namespace devtrace::stacks {
namespace {

using Frames = std::vector<std::string>;

struct Tables {
  Arena arena;
  StackDepot table;

  uint32_t add(const Frames& outermost_first) {
    uint32_t stack = 0;
    for (const std::string& name : outermost_first) {
      stack = table.add_call(stack, table.add_frame(name + ".py", name, static_cast<int>(name.size()), arena), arena);
    }
    table.count_stack(stack, arena);
    return stack;
  }
  Frames read(uint32_t stack) {
    Frames found;
    table.for_each_frame(stack, [&](const StackDepot::Frame& frame) {
      EXPECT_EQ(frame.file, std::string(frame.function) + ".py");
      EXPECT_EQ(frame.line, static_cast<int>(frame.function.size()));
      found.insert(found.begin(), std::string(frame.function));
    });
    return found;
  }
};

TEST(StackDepot, MarksWhatIsCalledFromAModulesCall) {
  auto tables = std::make_unique<Tables>();
  const auto frame = [&](const char* file, const char* function) {
    return tables->table.add_frame(file, function, 1, tables->arena);
  };
  const auto call = [&](uint32_t caller, uint32_t callee) {
    return tables->table.add_call(caller, callee, tables->arena);
  };
  const uint32_t main = call(0, frame("main.py", "main"));
  const uint32_t moved = call(main, frame("/lib/torch/nn/modules/module.py", "Module.to"));
  const uint32_t mine = call(main, frame("main.py", "_call_impl"));
  const uint32_t called = call(main, frame("/lib/torch/nn/modules/module.py", "Module._call_impl"));
  const uint32_t older = call(main, frame("/lib/torch/nn/modules/module.py", "_call_impl"));
  const uint32_t inner = call(called, frame("main.py", "forward"));
  for (const uint32_t stack : {0u, main, moved, mine}) EXPECT_FALSE(tables->table.in_module_call(stack)) << stack;
  for (const uint32_t stack : {called, older, inner}) EXPECT_TRUE(tables->table.in_module_call(stack)) << stack;
  EXPECT_EQ(call(called, frame("main.py", "forward")), inner);
}

TEST(StackDepot, KeepsEachStackOnce) {
  auto tables = std::make_unique<Tables>();
  const uint32_t abc = tables->add({"a", "b", "c"});
  const uint32_t abd = tables->add({"a", "b", "d"});
  const uint32_t ab = tables->add({"a", "b"});
  EXPECT_EQ(tables->add({"a", "b", "c"}), abc);
  EXPECT_EQ((std::set{abc, abd, ab}.size()), 3u);
  EXPECT_EQ(tables->table.stacks(), 3u);
  EXPECT_EQ(tables->read(abc), (Frames{"a", "b", "c"}));
  EXPECT_EQ(tables->read(ab), (Frames{"a", "b"}));
}

TEST(StackDepot, UnknownIdsHaveNoFrames) {
  auto tables = std::make_unique<Tables>();
  tables->add({"a"});
  EXPECT_EQ(tables->read(0), Frames{});
  EXPECT_EQ(tables->read(77), Frames{});
  EXPECT_EQ(tables->read(0xffffffff), Frames{});
}

TEST(StackDepot, EqualHashesAreToldApart) {
  // The index alone: all items in one chain, found by content.
  Arena arena;
  NumberIndex index;
  std::vector<int> items{0};
  for (int i = 1; i <= 3000; ++i) {
    items.push_back(i);
    ASSERT_TRUE(index.add(42, i, arena, [](uint32_t) { return 42; }));
  }
  for (uint32_t i = 1; i <= 3000; i += 100) {
    EXPECT_EQ(index.find(42, [&](uint32_t number) { return items[number] == static_cast<int>(i); }), i);
  }
  EXPECT_EQ(index.find(42, [](uint32_t) { return false; }), 0u);
}

TEST(StackDepot, ReadersNeedNoLock) {
  auto tables = std::make_unique<Tables>();
  constexpr int kStacks = 30'000;
  std::vector<std::atomic<uint32_t>> ids(kStacks);
  const auto frames_of = [](int i) {
    return Frames{"root", std::to_string(i % 7), std::to_string(i % 311), std::to_string(i)};
  };
  std::atomic<bool> wrong{false};
  std::vector<std::thread> readers;
  for (int t = 0; t < 3; ++t) {
    readers.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int known = 0; known < kStacks && !wrong;) {
        while (known < kStacks && ids[known].load(std::memory_order_acquire) != 0) ++known;
        if (known == 0) continue;
        const int i = random() % known;
        if (tables->read(ids[i].load(std::memory_order_acquire)) != frames_of(i)) wrong = true;
      }
    });
  }
  for (int i = 0; i < kStacks; ++i) ids[i].store(tables->add(frames_of(i)), std::memory_order_release);
  for (auto& reader : readers) reader.join();
  EXPECT_FALSE(wrong);
  for (int i = 0; i < kStacks; i += 17) ASSERT_EQ(tables->add(frames_of(i)), ids[i].load());
}

TEST(IdCache, NeverAnswersWithAnotherKeysId) {
  Arena arena;
  IdCache cache(1 << 14);  // smaller than what is kept in it: it must lose entries
  std::map<uint64_t, uint32_t> kept;
  std::mt19937_64 random(1);
  for (uint32_t id = 1; id <= 100'000; ++id) {
    const uint64_t key = random();
    kept[key] = id;
    cache.keep(key, id, id, arena);
    ASSERT_EQ(cache.find(key), id);
  }
  size_t found = 0;
  for (const auto& [key, id] : kept) {
    const uint32_t answer = cache.find(key);
    ASSERT_TRUE(answer == 0 || answer == id);
    found += answer != 0;
    ASSERT_EQ(cache.find(~key), 0u);
  }
  EXPECT_GT(found, size_t{1} << 12);
  EXPECT_LT(arena.bytes_held(), size_t{1} << 21);  // it does not grow with what was ever kept
}

TEST(IdCache, AKeyKeptAgainTakesTheNewId) {
  Arena arena;
  IdCache cache;
  cache.keep(0x123456789abcdef0, 1, 1, arena);
  cache.keep(0x123456789abcdef0, IdCache::kMaxId, 1, arena);
  EXPECT_EQ(cache.find(0x123456789abcdef0), IdCache::kMaxId);
}

TEST(IdCache, DoesNotGrowWithKeysOfTheSameIds) {
  Arena arena;
  IdCache cache;
  cache.keep(1 << 30, 1, 1, arena);
  const size_t held = arena.bytes_held();
  std::mt19937_64 random(1);
  for (int i = 0; i < 1'000'000; ++i) {
    const uint64_t key = random();
    cache.keep(key, 1 + i % 10, 10, arena);
    ASSERT_EQ(cache.find(key), static_cast<uint32_t>(1 + i % 10));
  }
  EXPECT_EQ(arena.bytes_held(), held);
}

// As in a process in which so many lines have allocated.
TEST(StackDepot, AMillionStacksAreLessThan64MebibytesAndStillKnown) {
  constexpr uint32_t kStacks = 1'000'000;
  auto tables = std::make_unique<Tables>();
  IdCache stack_ids, frame_ids(size_t{1} << 20);
  const auto key = [](uint32_t number) { return hash_pair(number, 7); };
  const auto frame = [&](uint32_t i) {
    return tables->table.add_frame("file" + std::to_string(i / 1000), "f", static_cast<int>(i % 1000), tables->arena);
  };
  for (uint32_t i = 0; i < kStacks; ++i) {
    const uint32_t id = frame(i), stack = tables->table.add_call(0, id, tables->arena);
    ASSERT_NE(stack, 0u);
    tables->table.count_stack(stack, tables->arena);
    frame_ids.keep(key(i), id, tables->table.frames(), tables->arena);
    stack_ids.keep(key(i), stack, tables->table.stacks(), tables->arena);
  }
  EXPECT_EQ(tables->table.stacks(), kStacks);
  EXPECT_LT(tables->arena.bytes_held(), size_t{64} << 20);
  size_t kept = 0;
  for (uint32_t i = 0; i < kStacks; ++i) {
    const uint32_t id = frame(i), stack = tables->table.add_call(0, id, tables->arena);
    const uint32_t cached = stack_ids.find(key(i));
    ASSERT_TRUE(cached == 0 || cached == stack);
    kept += cached != 0;
  }
  EXPECT_EQ(tables->table.stacks(), kStacks);
  EXPECT_EQ(tables->table.frames(), kStacks);
  EXPECT_GT(kept, kStacks / 2);
}

TEST(IdCache, ReadersBesideAWriterThatGrowsIt) {
  Arena arena;
  IdCache cache;
  SpinLock lock;
  std::atomic<bool> wrong{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int i = 0; i < 200'000; ++i) {
        const uint32_t id = 1 + random() % 40'000;
        const uint64_t key = hash_pair(id, 99);
        const uint32_t answer = cache.find(key);
        if (answer != 0 && answer != id) wrong = true;
        if (answer != 0) continue;
        std::lock_guard hold(lock);
        cache.keep(key, id, 40'000, arena);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_FALSE(wrong);
}

TEST(CodeGenerations, ADeathMovesTheGenerationOfWhatWasMarkedOnly) {
  auto lives = std::make_unique<CodeGenerations>();
  const uintptr_t code = 0x7f0012345670;
  const uint32_t before = lives->generation(code);
  lives->died(code);
  EXPECT_EQ(lives->generation(code), before) << "code that was never kept makes others' keys invalid";
  lives->mark(code);
  EXPECT_EQ(lives->generation(code), before);
  lives->died(code);
  EXPECT_NE(lives->generation(code), before);
}

TEST(CodeGenerations, NoKeyOutlivesItsCodeWhoeverDiesBeside) {
  // Threads that each own an address: make a key, mark, die; the next life at the address must never make the same key.
  auto lives = std::make_unique<CodeGenerations>();
  std::atomic<bool> wrong{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      std::vector<std::set<uint32_t>> used(8);
      for (int i = 0; i < 20'000; ++i) {
        const int slot = random() % used.size();
        const uintptr_t code = 0x7f0000000000 + 16 * (1000 * t + slot);
        const uint32_t generation = lives->generation(code);
        if (!used[slot].insert(generation).second) wrong = true;
        lives->mark(code);
        lives->died(code);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_FALSE(wrong);
}

}  // namespace
}  // namespace devtrace::stacks

using namespace devtrace;
using stacks::LastStack;

namespace {

struct Frame {
  uintptr_t previous, instruction;
};

python::Layout layout() {
  python::Layout layout{};
  layout.frame_previous = offsetof(Frame, previous);
  layout.frame_instruction = offsetof(Frame, instruction);
  layout.instruction = python::Instruction::pointer;
  return layout;
}

// The last is the innermost.
struct Stack {
  explicit Stack(size_t depth) : frames(depth) {
    for (size_t i = 0; i < depth; ++i) frames[i] = {i == 0 ? 0 : address(i - 1), 1000 + i};
  }
  uintptr_t address(size_t i) const { return reinterpret_cast<uintptr_t>(&frames[i]); }
  uintptr_t top() const { return address(frames.size() - 1); }

  std::vector<Frame> frames;
};

}  // namespace

TEST(LastStack, IsFoundWhileEveryFrameIsWhereItWas) {
  const Stack stack(5);
  LastStack last;
  EXPECT_EQ(last.find(layout(), stack.top(), 0), 0u);
  last.keep(layout(), stack.top(), 0, 7);
  EXPECT_EQ(last.find(layout(), stack.top(), 0), 7u);
  EXPECT_EQ(last.find(layout(), stack.top(), 0), 7u);
}

TEST(LastStack, AnyFrameThatHasMovedOnIsSeen) {
  for (size_t moved = 0; moved < 5; ++moved) {
    Stack stack(5);
    LastStack last;
    last.keep(layout(), stack.top(), 0, 7);
    ++stack.frames[moved].instruction;
    EXPECT_EQ(last.find(layout(), stack.top(), 0), 0u) << moved;
  }
}

TEST(LastStack, ADeeperAndAShallowerStackAreOthers) {
  Stack stack(5);
  LastStack last;
  last.keep(layout(), stack.address(3), 0, 7);
  EXPECT_EQ(last.find(layout(), stack.top(), 0), 0u);
  EXPECT_EQ(last.find(layout(), stack.address(2), 0), 0u);
  EXPECT_EQ(last.find(layout(), 0, 0), 0u);
  // The outermost frame got a caller, as a coroutine's does that is awaited by another.
  const Stack outer(1);
  stack.frames[0].previous = outer.top();
  EXPECT_EQ(last.find(layout(), stack.address(3), 0), 0u);
}

TEST(LastStack, TheDeathOfACodeObjectEndsIt) {
  const Stack stack(5);
  LastStack last;
  last.keep(layout(), stack.top(), 3, 7);
  EXPECT_EQ(last.find(layout(), stack.top(), 4), 0u);
  last.keep(layout(), stack.top(), 4, 8);
  EXPECT_EQ(last.find(layout(), stack.top(), 4), 8u);
}

TEST(LastStack, AVeryDeepOneIsNotKept) {
  const Stack shallow(5), deep(5000);
  LastStack last;
  last.keep(layout(), shallow.top(), 0, 7);
  last.keep(layout(), deep.top(), 0, 8);
  EXPECT_EQ(last.find(layout(), deep.top(), 0), 0u);
  EXPECT_EQ(last.find(layout(), shallow.top(), 0), 0u);
}

TEST(LastStack, OnlyWhereAnInstructionIsOneCodeObjects) {
  python::Layout one = layout();
  EXPECT_TRUE(LastStack::knows(one));
  one.frame_copy = 80;
  EXPECT_FALSE(LastStack::knows(one));
  one = layout();
  one.instruction = python::Instruction::unit_index;
  EXPECT_FALSE(LastStack::knows(one));
}

using devtrace::stacks::KnownFrames;

TEST(KnownFrames, AFramesPlaceIsAlwaysTheSame) {
  KnownFrames known;
  known.at(0x7000) = {0x7000, 0x1234, 99};
  EXPECT_EQ(known.at(0x7000).key, 99u);
  EXPECT_EQ(&known.at(0x7000), &known.at(0x7000));
}

TEST(KnownFrames, TheDeathOfACodeObjectEndsAll) {
  KnownFrames known;
  known.forget_the_dead(3);
  for (uintptr_t frame = 0x7000; frame < 0x9000; frame += 80) known.at(frame) = {frame, 0x1234, 99};
  known.forget_the_dead(3);
  EXPECT_EQ(known.at(0x7000 + 80 * 50).frame, 0x7000u + 80 * 50);
  known.forget_the_dead(4);
  for (uintptr_t frame = 0x7000; frame < 0x9000; frame += 80) EXPECT_EQ(known.at(frame).frame, 0u);
}
