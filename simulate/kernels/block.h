// A block that runs: its threads in groups that are at the same place.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "simulate/kernels/children.h"
#include "simulate/kernels/code.h"
#include "simulate/kernels/hazards.h"
#include "simulate/kernels/launch.h"
#include "simulate/kernels/machine.h"

namespace devtrace::simulate::kernels {

class Block {
 public:
  enum class State : uint8_t { done, goes_on, waits, failed };

  Block(const Program& program, uint32_t function, const Launch& launch, Memory& memory, Children& children);
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  // Before it begins: all blocks of its cluster.
  void join(const std::vector<std::unique_ptr<Block>>& cluster, uint32_t rank);
  void begin(uint64_t cluster);  // its number in the grid
  // Until it ends, has run for long, or has waited long enough that others may have to go on first.
  State run();
  Result result() const;

 private:
  struct Frame {
    const Code* code = nullptr;
    std::vector<uint64_t> storage;
    uint8_t* registers = nullptr;
    uint8_t* constants = nullptr;
    uint8_t* local = nullptr;
    Extent* caches = nullptr;
    Frame* caller = nullptr;
    const CallSite* site = nullptr;
    uint32_t return_to = 0, depth = 0, groups = 0;
  };
  enum class Wait : uint8_t { no, warp, barrier };
  struct Group {
    Frame* frame = nullptr;
    uint32_t at = 0;
    Lanes lanes;
    Wait wait = Wait::no;
    bool forced = false, tired = false;
    uint32_t barrier = 0;
    const Step* step = nullptr;  // that of its barrier
  };
  struct Barrier {
    uint32_t arrived = 0, wanted = 0;  // 0: all
    bool any = false;
    uint32_t yes = 0;  // predicates, of those that count them
  };
  // What a function needs of a block: made when it is first called.
  struct Prepared {
    std::vector<uint64_t> constants;
    std::vector<Extent> caches;
    std::vector<std::unique_ptr<Frame>> free;
  };

  Frame* push(const Code& code, Frame* caller);
  void leave(Frame* frame);
  void refresh();  // what differs between blocks
  void fill(const Code& code, uint8_t* constants, bool all);
  void fill_one(const Constant& c, uint8_t* at);
  uint64_t special(Special what, uint32_t lane) const;
  void enter(const Frame& frame);
  Group* choose();
  uint32_t limit(const Group& group) const;
  void go_on(Group& group);
  bool is_fault();
  void look_for_hazard();
  void locate(const Code& code, uint32_t step, Result* r) const;  // the instruction, and its line
  bool control(Group& group, const Step& step);
  Group& apart(const Group& from, Lanes lanes, uint32_t at);
  bool by_table(Group& group, const Step& step);
  void by_pointer(Group& group, const CallSite& site, uint32_t* function);
  bool call(Group& group, const Step& step);
  bool ret(Group& group);
  void end_lanes(const Lanes& lanes);
  bool arrive(Group& group, const Step& step, bool waits);
  bool is_cluster_here(const Lanes& lanes) const;
  void release();
  bool is_complete(const Group& group, const Step& step) const;
  // builtins.cpp
  void builtin(const CallSite& site, const Frame& frame, const Lanes& lanes);
  void assertion(const CallSite& site, const Frame& frame, uint32_t lane);
  uint64_t runtime(const CallSite& site, const Frame& frame, uint32_t lane);
  size_t parameter_bytes(uint64_t kernel, uint32_t* function) const;
  bool give(uint64_t to, uint64_t value, size_t bytes, uint32_t lane);
  const char* text_at(uintptr_t address, uint32_t lane);
  std::string printed(const CallSite& site, const Frame& frame, uint32_t lane);
  void copy(const Frame& to, const Place& a, const Frame& from, const Place& b, const Lanes& lanes) const;
  uint8_t* place(const Frame& frame, const Place& p, uint32_t lane) const;
  uint64_t argument(const Frame& frame, const CallSite& site, size_t i, uint32_t lane) const;

  const Program& program_;
  const uint32_t function_;
  const Launch& launch_;
  Children& children_;
  Machine m_;
  const Code* code_ = nullptr;  // of the current frame
  std::vector<std::unique_ptr<Group>> groups_;
  std::unordered_map<const Code*, Prepared> prepared_;
  std::vector<std::unique_ptr<Frame>> frames_;
  std::vector<uint64_t> shared_;
  std::unique_ptr<SharedHazards> hazards_;
  Barrier barriers_[17];
  size_t frame_bytes_ = 0, local_used_ = 0;
  uint32_t step_ = 0;  // that failed
  uint32_t loops_ = 0;
  bool waits_ = false;
};

}  // namespace devtrace::simulate::kernels
