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
    for (size_t i = 0; i < depth; ++i) frames[i] = {i == 0 ? 0 : address(i - 1), 1000 + 2 * i};
  }
  uintptr_t address(size_t i) const { return reinterpret_cast<uintptr_t>(&frames[i]); }
  uintptr_t top() const { return address(frames.size() - 1); }

  std::vector<Frame> frames;
};

}  // namespace

enum class Found { same, another, unknown };

// A frame's instruction is its key; one below 100 is not shown by Python.
struct Looking {
  Found look(uintptr_t top, uint64_t deaths = 0) {
    reads = 0;
    if ((id = last.find(layout(), top, deaths))) return Found::same;
    const bool found = last.look(layout(), top, deaths, [this](uintptr_t frame) -> LastStack::Part {
      ++reads;
      const uintptr_t instruction = reinterpret_cast<const Frame*>(frame)->instruction;
      const bool shown = instruction >= 100;
      return {shown ? LastStack::Part::Kind::counts : LastStack::Part::Kind::left_out, shown ? instruction : 0};
    });
    if (found) last.keep(++ids);
    return found ? Found::another : Found::unknown;
  }
  // As somebody else would add it up who walks all of the stack.
  static uint64_t hash_of(uintptr_t frame) {
    uint64_t hash = 5;
    for (const Frame* at; (at = reinterpret_cast<const Frame*>(frame)); frame = at->previous)
      if (at->instruction >= 100) hash = hash * LastStack::kFactor + at->instruction;
    return hash;
  }

  LastStack last;
  int reads = 0;
  uint32_t ids = 0, id = 0;
};

TEST(LastStack, IsTheSameWhileEveryFrameIsWhereItWas) {
  const Stack stack(5);
  Looking looking;
  EXPECT_EQ(looking.look(stack.top()), Found::another);
  EXPECT_EQ(looking.reads, 5);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(looking.look(stack.top()), Found::same);
    EXPECT_EQ(looking.reads, 0);
    EXPECT_EQ(looking.id, 1u);
  }
}

TEST(LastStack, OnlyTheFrameThatHasMovedOnIsRead) {
  for (size_t moved = 0; moved < 5; ++moved) {
    Stack stack(5);
    Looking looking;
    looking.look(stack.top());
    stack.frames[moved].instruction += 50;
    EXPECT_EQ(looking.look(stack.top()), Found::another) << moved;
    EXPECT_EQ(looking.reads, 1);
    EXPECT_EQ(looking.last.hash(5), Looking::hash_of(stack.top()));
  }
}

TEST(LastStack, AnInstructionThatWasReadIsKnownUntilACodeObjectDies) {
  Stack stack(5);
  Looking looking;
  looking.look(stack.top());
  stack.frames[2].instruction += 50;
  EXPECT_EQ(looking.look(stack.top()), Found::another);
  EXPECT_EQ(looking.reads, 1);
  stack.frames[2].instruction -= 50;
  EXPECT_EQ(looking.look(stack.top()), Found::another);
  EXPECT_EQ(looking.reads, 0);
  EXPECT_EQ(looking.last.hash(5), Looking::hash_of(stack.top()));
  stack.frames[2].instruction += 50;
  EXPECT_EQ(looking.look(stack.top(), 1), Found::another);
  EXPECT_EQ(looking.reads, 5);
  looking.last.keep(0);
  EXPECT_EQ(looking.look(stack.top(), 1), Found::another);
  EXPECT_EQ(looking.reads, 5) << "nobody watches for the death of what was read";
  stack.frames[2].instruction = 7;
  for (int i = 0; i < 2; ++i) {
    looking.look(stack.top(), 1);
    EXPECT_EQ(looking.look(stack.address(3), 1), Found::another);
  }
  EXPECT_EQ(looking.look(stack.address(1), 1), Found::another);
  EXPECT_EQ(looking.look(stack.top(), 1), Found::another);
  EXPECT_EQ(looking.reads, 1) << "what is not shown is watched by nobody";
}

TEST(LastStack, ADeeperAndAShallowerStackAreOthers) {
  Stack stack(5);
  Looking looking;
  looking.look(stack.address(3));
  EXPECT_EQ(looking.look(stack.top()), Found::another);
  EXPECT_EQ(looking.reads, 1);
  EXPECT_EQ(looking.last.hash(5), Looking::hash_of(stack.top()));
  EXPECT_EQ(looking.look(stack.address(2)), Found::another);
  EXPECT_EQ(looking.reads, 0);
  EXPECT_EQ(looking.last.hash(5), Looking::hash_of(stack.address(2)));
  EXPECT_EQ(looking.last.depth(), 3u);
  EXPECT_EQ(looking.look(0), Found::another);
  EXPECT_EQ(looking.last.depth(), 0u);
}

// A coroutine that is awaited by another one, and a greenlet: the same frames with another caller.
TEST(LastStack, AnotherCallerIsAnotherStack) {
  Stack stack(5);
  const Stack other(4);
  Looking looking;
  looking.look(stack.top());
  stack.frames[0].previous = other.top();
  EXPECT_EQ(looking.look(stack.top()), Found::another);
  EXPECT_EQ(looking.last.hash(5), Looking::hash_of(stack.top()));
  stack.frames[2].previous = other.address(1);
  EXPECT_EQ(looking.look(stack.top()), Found::another);
  EXPECT_EQ(looking.last.hash(5), Looking::hash_of(stack.top()));
  stack.frames[2].previous = 0;
  EXPECT_EQ(looking.look(stack.top()), Found::another);
  EXPECT_EQ(looking.last.hash(5), Looking::hash_of(stack.top()));
  EXPECT_EQ(looking.last.depth(), 3u);
}

TEST(LastStack, WhatPythonDoesNotShowIsNoPartOfIt) {
  Stack stack(6);
  stack.frames[2].instruction = stack.frames[5].instruction = 7;
  Looking looking;
  looking.look(stack.top());
  EXPECT_EQ(looking.last.hash(5), Looking::hash_of(stack.top()));
  EXPECT_EQ(looking.last.depth(), 4u);
  stack.frames[2].instruction = 200;  // begins: what is inside of it stands deeper now
  EXPECT_EQ(looking.look(stack.top()), Found::another);
  EXPECT_EQ(looking.last.hash(5), Looking::hash_of(stack.top()));
  EXPECT_EQ(looking.last.depth(), 5u);
}

// Steps of a program, each the difference to the one before: whatever came before, the hash is that of a whole walk.
TEST(LastStack, TheWayToAStackDoesNotMatter) {
  Stack stack(40);
  Looking looking;
  uint64_t random = 1;
  const auto next = [&](uint64_t below) {
    return ((random = random * 6364136223846793005 + 1442695040888963407) >> 33) % below;
  };
  for (int step = 0; step < 2000; ++step) {
    const size_t depth = 1 + next(40);
    for (uint64_t changes = next(4); changes > 0; --changes) stack.frames[next(depth)].instruction = 90 + next(20);
    looking.look(stack.address(depth - 1));
    ASSERT_EQ(looking.last.hash(5), Looking::hash_of(stack.address(depth - 1))) << step;
  }
}

TEST(LastStack, TheDeathOfACodeObjectEndsIt) {
  const Stack stack(5);
  Looking looking;
  looking.look(stack.top(), 3);
  EXPECT_EQ(looking.look(stack.top(), 4), Found::another);
  EXPECT_EQ(looking.reads, 5);
  EXPECT_EQ(looking.look(stack.top(), 4), Found::same);
}

TEST(LastStack, WhatNobodyWatchesIsReadAgain) {
  const Stack stack(5);
  Looking looking;
  looking.look(stack.top());
  looking.last.keep(0);
  EXPECT_EQ(looking.look(stack.top()), Found::another);
  EXPECT_EQ(looking.reads, 5);
}

TEST(LastStack, AVeryDeepOneIsNotKept) {
  const Stack shallow(5), deep(5000);
  Looking looking;
  looking.look(shallow.top());
  EXPECT_EQ(looking.look(deep.top()), Found::unknown);
  EXPECT_EQ(looking.look(shallow.top()), Found::another);
  EXPECT_EQ(looking.reads, 5);
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
