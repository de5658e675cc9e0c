// What the instructions of a kernel work on: the registers of all threads of a block, one array a register.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "simulate/kernels/lanes.h"
#include "simulate/kernels/texture.h"

namespace devtrace::simulate::kernels {

struct Machine;
struct Step;
class SharedHazards;

// Where a register's array begins: bytes a lane that lie before it; with kConstant among the function's constants.
using Slot = uint32_t;
constexpr Slot kConstant = 1u << 31;
constexpr Slot kNoSlot = UINT32_MAX;

// Where control goes on behind a step, for all that do not simply go on with the next one.
enum class Flow : uint8_t { next, branch, table, call, ret, exit, barrier, arrive, warp_sync, cluster_wait };

// PTX ISA, "Memory Consistency Model": strong operations (volatile, relaxed, acquire, release) and atomic ones are made
// for memory that other threads use at the same time.
enum class Strength : uint8_t { weak, strong, atomic };

// A decoded instruction.
struct Step {
  void (*run)(Machine&, const Step&) = nullptr;
  Slot d = kNoSlot, a = kNoSlot, b = kNoSlot, c = kNoSlot;
  Slot guard = kNoSlot;
  bool guard_negated = false;
  Strength strength = Strength::weak;  // of an access
  Flow flow = Flow::next;
  uint8_t mode = 0;  // of its own kind: a comparison, a rounding, a vector's length
  uint8_t mode2 = 0;
  uint32_t extra = 0;     // index of what it needs besides; a branch: its target
  int64_t immediate = 0;  // what is added to an address; a number
  uint32_t source = 0;    // the instruction in ptx::Function::body
};

// Memory that a kernel may use, as far as it is one block.
struct Extent {
  uintptr_t begin = 0;
  size_t size = 0;
};

enum class FaultKind : uint8_t {
  none,
  // No faults: it goes on, and Memory::note is called.
  noted,
  unwritten,  // reads what nothing has written
  hazard,     // of shared memory
  address,
  misaligned,
  shared,
  texture,
  trap,
  assertion,
  not_computed,
  time,
  stack
};

constexpr bool goes_on(FaultKind kind) {
  return kind != FaultKind::none && kind <= FaultKind::hazard;
}

struct Fault {
  FaultKind kind = FaultKind::none;
  uint32_t lane = 0;
  uintptr_t address = 0;
  size_t size = 0;
  bool writes = false;
  std::string text;
};

struct Result;

// What kernels ask of the device that they run on.
class Memory {
 public:
  virtual ~Memory() = default;
  enum class Found : uint8_t { no, yes, noted };
  // The block that holds the address, where kernels on the device may use it. Noted: hardware lets that pass, and it is
  // a mistake all the same.
  virtual Found find(uintptr_t address, size_t size, bool writes, Extent* extent) = 0;
  virtual void note(const Result& /*where*/) {}
  // malloc and free of kernels; 0: there is none left.
  virtual uintptr_t allocate(size_t) { return 0; }
  virtual void release(uintptr_t) {}
  virtual int device() const { return 0; }  // its ordinal
  // By CUdevice_attribute's numbers; false: there is none.
  virtual bool attribute(int /*which*/, int /*device*/, int* /*value*/) const { return false; }
  // Of a conditional node in the graph that the kernel belongs to, by its handle.
  virtual void set_condition(uint64_t /*handle*/, uint32_t /*value*/) {}
  // The texture or surface object of that handle; false: kernels on the device cannot use it, and *why says so.
  virtual bool texture(uint64_t /*handle*/, Texture* /*found*/, std::string* /*why*/) { return false; }
  // Whether it wants to be told of each access.
  virtual bool follows() const { return false; }
  // False: it reads what nothing has written.
  virtual bool used(uintptr_t /*address*/, size_t /*size*/, bool /*writes*/) { return true; }
};

struct Machine {
  uint8_t* base[2] = {};  // registers, constants
  size_t stride = 0;      // lanes an array has room for
  const Lanes* lanes = nullptr;
  uint32_t lane_count = 0;

  uint8_t* shared = nullptr;
  size_t shared_bytes = 0;
  size_t quick_shared = 0;  // as many of them are reached without a question: none where each access is looked at
  const uint8_t* parameters = nullptr;
  size_t parameter_bytes = 0;
  // Each lane's own memory, of all frames.
  uint8_t* local = nullptr;
  size_t local_all = 0;

  Memory* memory = nullptr;
  bool follows = false;              // Memory::follows()
  SharedHazards* hazards = nullptr;  // null: races in shared memory are not looked for
  Extent* cache = nullptr;           // the last block, for each step that goes to memory: by Step::extra
  size_t caches = 0;  // steps that go to memory: as many blocks again lie behind these, for looks_at_each()
  const std::vector<Slot>* more = nullptr;  // slots of steps with many operands
  Lanes alive;                              // threads that have not ended
  Fault fault;
  uint32_t ticks = 0;  // see Block: how likely it is that the block waits for another one
  uint32_t block[3] = {};

  // Blocks of its cluster, this one among them, by their rank. They run on one thread of the host.
  std::vector<const Machine*> cluster;
  uint32_t rank = 0;
  std::vector<uint32_t> arrivals;  // of each lane at the cluster's barrier

  template <class T>
  T* at(Slot slot) const {
    return reinterpret_cast<T*>(base[slot >> 31] + (slot & ~kConstant) * stride);
  }
  bool looks_at_each() const { return follows || hazards; }  // access
  void fail(FaultKind kind, uint32_t lane, std::string text = {}) {
    if (fault.kind != FaultKind::none && (!goes_on(fault.kind) || goes_on(kind))) return;
    fault.kind = kind;
    fault.lane = lane;
    fault.text = std::move(text);
  }
};

using Handler = void (*)(Machine&, const Step&);

}  // namespace devtrace::simulate::kernels
