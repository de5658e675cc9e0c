#include "simulate/model/kernels/stand_ins.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "simulate/kernels/instructions/small_floats.h"
#include "simulate/model/memory/memory.h"
#include "simulate/values/uncomputed.h"
#include "simulate/values/values.h"

namespace devtrace::simulate {
namespace {

// cross_device_reduce_1stage<T, ranks> and _2stage of vLLM and SGLang (custom_all_reduce.cuh): the sum of what lies in
// all ranks' buffers, which other processes have mapped. Of the ranks' signals, which nobody else reads, ours are:
constexpr int kMostRanks = 8;
struct Signal {
  uint32_t turns;                   // calls that are done
  uint32_t stage;                   // of the call that is not: 0, or the last one that this rank has reached
  uint32_t begun[kMostRanks];       // by rank: the last turn in which its input was there
  uint32_t summed[kMostRanks];      // ... in which it has read all inputs
  uint32_t uncomputed[kMostRanks];  // ... whose input nobody has computed there
};

// As the kernel's parameters lie.
struct AllReduce {
  const uint64_t* inputs;  // of the ranks: addresses
  alignas(16) Signal* signals[kMostRanks];
  Signal* own;
  uint8_t* result;
  int32_t rank;
  int32_t packs;  // of 16 bytes
};

struct Call : AllReduce {
  std::string_view kernel;
  bool done = false;
  char type;  // as in a mangled name: f; h: half; b: bfloat16
  int ranks;
};

bool is_somebodys(const void* begin, size_t size) {
  Allocation a;
  const auto address = reinterpret_cast<uintptr_t>(begin);
  return begin && find_memory(address, &a) && address - a.base + size <= a.size;
}

bool can_be_done(const Call& c) {
  if (c.rank < 0 || c.rank >= c.ranks || c.packs < 0 || !is_somebodys(c.own, sizeof(Signal))) return false;
  const size_t bytes = static_cast<size_t>(c.packs) * 16;
  if (!is_somebodys(c.inputs, sizeof(uint64_t) * static_cast<size_t>(c.ranks)) || !is_somebodys(c.result, bytes))
    return false;
  for (int i = 0; i < c.ranks; ++i)
    if (!is_somebodys(c.signals[i], sizeof(Signal)) || !is_somebodys(reinterpret_cast<const void*>(c.inputs[i]), bytes))
      return false;
  return true;
}

template <typename T, typename Value, typename Bits>
void sum(const Call& c, Value value, Bits bits) {
  const size_t count = static_cast<size_t>(c.packs) * 16 / sizeof(T);
  for (size_t at = 0; at < count; ++at) {
    float all = 0;
    for (int i = 0; i < c.ranks; ++i) all += value(reinterpret_cast<const T*>(c.inputs[i])[at]);
    reinterpret_cast<T*>(c.result)[at] = bits(all);
  }
}

void sum(const Call& c) {
  using namespace kernels;
  if (c.type == 'f')
    sum<float>(
        c, [](float x) { return x; }, [](float x) { return x; });
  else if (c.type == 'h')
    sum<uint16_t>(c, half_to_float, half_of);
  else
    sum<uint16_t>(c, bfloat_to_float, [](float x) { return bfloat_of(x); });
}

values::Source source_of_input(const Call& c) {
  return values::uncomputed().find(c.inputs[c.rank], static_cast<size_t>(c.packs) * 16);
}

// The sum is as computed as all inputs. What of another process's is not, it has told.
values::Source source_of_sum(const Call& c, uint32_t turn) {
  if (const values::Source source = source_of_input(c)) return source;
  for (int i = 0; i < c.ranks; ++i)
    if (c.own->uncomputed[i] == turn) return values::source_named("a kernel of rank " + std::to_string(i));
  return 0;
}

std::atomic_ref<uint32_t> shared(uint32_t& word) {
  return std::atomic_ref<uint32_t>(word);
}

// Tells all ranks that this one has come so far, and whether all have.
bool meet(const Call& c, uint32_t (Signal::*stage)[kMostRanks], uint32_t turn) {
  bool all = true;
  for (int i = 0; i < c.ranks; ++i) {
    shared((c.signals[i]->*stage)[c.rank]).store(turn, std::memory_order_release);
    all &= static_cast<int32_t>(shared((c.own->*stage)[i]).load(std::memory_order_acquire) - turn) >= 0;
  }
  return all;
}

void sum_and_follow(const Call& c, uint32_t turn) {
  const values::Source source = source_of_sum(c, turn);
  sum(c);
  const auto result = reinterpret_cast<uintptr_t>(c.result);
  const size_t bytes = static_cast<size_t>(c.packs) * 16;
  values::uncomputed().clear(result, bytes);
  values::uncomputed().mark(result, bytes, source);
}

// One look, which does what can be done. Of a turn that is done it says so until summed() has taken note.
int is_summed(void* data) {
  Call& c = *static_cast<Call*>(data);
  if (c.done || !can_be_done(c)) return true;
  const uint32_t turn = c.own->turns + 1;
  if (c.own->stage == 0) {
    if (source_of_input(c))
      for (int i = 0; i < c.ranks; ++i) c.signals[i]->uncomputed[c.rank] = turn;
    if (!meet(c, &Signal::begun, turn)) return false;
    sum_and_follow(c, turn);
    c.own->stage = 1;
  }
  // An input may be overwritten only after all have read it.
  if (!meet(c, &Signal::summed, turn)) return false;
  c.own->stage = 0;
  c.own->turns = turn;
  c.done = true;
  return true;
}

void summed(void* data) {
  using namespace std::chrono_literals;
  Call& c = *static_cast<Call*>(data);
  // The other ranks may be long in coming, and are on the same processors.
  for (auto pause = 10us; !is_summed(data); pause = std::min(pause * 2, 1000us)) std::this_thread::sleep_for(pause);
  if (std::exchange(c.done, false)) return;
  const std::string name(c.kernel);
  values::not_computed_kernel(name, "nobody has allocated what it is given");
  const size_t bytes = static_cast<size_t>(std::max(c.packs, 0)) * 16;
  values::mark({{reinterpret_cast<uintptr_t>(c.result), bytes, values::kernel_source(name)}});
}

// Behind a name's beginning: its type and the number of ranks, "I6__halfLi2EE…".
bool read_template(std::string_view rest, Call* call) {
  static constexpr struct {
    std::string_view name;
    char type;
  } kTypes[] = {{"If", 'f'}, {"I6__half", 'h'}, {"I13__nv_bfloat16", 'b'}};
  for (const auto& [name, type] : kTypes) {
    if (!rest.starts_with(name)) continue;
    rest.remove_prefix(name.size());
    if (rest.size() < 5 || !rest.starts_with("Li") || !rest.substr(3).starts_with("EE")) return false;
    call->type = type;
    call->ranks = rest[2] - '0';
    return call->ranks >= 1 && call->ranks <= kMostRanks;
  }
  return false;
}

constexpr std::string_view kNames[] = {
    "_ZN4vllm26cross_device_reduce_1stage",
    "_ZN4vllm26cross_device_reduce_2stage",
    "_ZN6sglang26cross_device_reduce_1stage",
    "_ZN6sglang26cross_device_reduce_2stage",
};
// What follows the template's arguments: (RankData*, RankSignals, Signal*, T*, int, int).
constexpr std::string_view kParameters = "EvPNS_8RankDataENS_11RankSignalsEPNS_6SignalEPT_ii";

bool read_name(const std::string& name, Call* call) {
  for (const std::string_view known : kNames)
    if (name.starts_with(known) && name.ends_with(kParameters))
      return read_template(std::string_view(name).substr(known.size()), call);
  return false;
}

}  // namespace

bool has_stand_in(const Function& f) {
  Call ignored;
  return f.name.starts_with("_ZN") && read_name(f.name, &ignored);
}

void use_stand_in(Operation* operation, const Function& f, const Arguments& arguments) {
  auto call = std::make_shared<Call>();
  constexpr size_t kBytes = offsetof(AllReduce, packs) + sizeof(AllReduce::packs);
  if (!read_name(f.name, call.get()) || arguments.values.size() < kBytes) return;
  std::memcpy(static_cast<AllReduce*>(call.get()), arguments.values.data(), kBytes);
  call->kernel = f.name;
  operation->ready = is_summed;
  operation->compute = summed;
  operation->compute_data = std::move(call);
}

}  // namespace devtrace::simulate
