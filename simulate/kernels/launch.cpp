#include "simulate/kernels/launch.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <iterator>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>

#include "simulate/kernels/block.h"

namespace devtrace::simulate::kernels {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMostResident = 4096;  // blocks that wait for others

// What the threads of the host share that run one launch.
struct Grid {
  const Program& program;
  const uint32_t function;
  const Launch& launch;
  Memory& memory;
  Children& children;
  const uint64_t clusters;
  const Clock::time_point end;
  std::atomic<uint64_t> next{0};
  std::atomic<bool> failed{false};
  std::mutex mutex;
  Result result;

  void fail(Result found) {
    std::lock_guard lock(mutex);
    if (failed.exchange(true)) return;
    result = std::move(found);
  }
};

// The blocks of a cluster, in turn: they may wait for each other, and use each other's shared memory.
class Cluster {
 public:
  explicit Cluster(const Grid& grid) {
    const uint32_t* const size = grid.launch.cluster;
    for (uint32_t i = 0; i < size[0] * size[1] * size[2]; ++i)
      blocks_.push_back(std::make_unique<Block>(grid.program, grid.function, grid.launch, grid.memory, grid.children));
    for (uint32_t i = 0; i < blocks_.size(); ++i) blocks_[i]->join(blocks_, i);
  }

  void begin(uint64_t number) {
    for (const auto& block : blocks_) block->begin(number);
    running_.clear();
    for (const auto& block : blocks_) running_.push_back(block.get());
  }

  // A round in which all wait may be followed by one in which some go on.
  Block::State run() {
    constexpr int kRounds = 1000;
    for (int round = 0; round < (blocks_.size() > 1 ? kRounds : 1); ++round) {
      bool waits = true;
      for (size_t i = 0; i < running_.size();) {
        const Block::State state = running_[i]->run();
        if (state == Block::State::failed) return failed_ = running_[i], state;
        waits = waits && state == Block::State::waits;
        if (state == Block::State::done)
          running_.erase(running_.begin() + static_cast<ptrdiff_t>(i));
        else
          ++i;
      }
      if (running_.empty()) return Block::State::done;
      if (!waits) return Block::State::goes_on;
    }
    return Block::State::waits;
  }

  Result result() const { return failed_->result(); }

 private:
  std::vector<std::unique_ptr<Block>> blocks_;
  std::vector<Block*> running_;
  Block* failed_ = nullptr;
};

// One cluster after the other, most of them a block. Those that wait are kept, and go on in turn.
void work(Grid& grid) {
  std::deque<std::unique_ptr<Cluster>> residents;
  const auto start_one = [&] {
    const uint64_t number = grid.next.fetch_add(1);
    if (number >= grid.clusters) return false;
    auto cluster = std::make_unique<Cluster>(grid);
    cluster->begin(number);
    residents.push_front(std::move(cluster));
    return true;
  };
  while (!grid.failed && (!residents.empty() || start_one())) {
    Cluster& cluster = *residents.front();
    switch (cluster.run()) {
      case Block::State::done: {
        const uint64_t number = grid.next.fetch_add(1);
        if (number < grid.clusters)
          cluster.begin(number);
        else
          residents.pop_front();
        break;
      }
      case Block::State::failed:
        grid.fail(cluster.result());
        break;
      case Block::State::waits:
        residents.push_back(std::move(residents.front()));
        residents.pop_front();
        if (residents.size() < kMostResident) start_one();
        [[fallthrough]];
      case Block::State::goes_on:
        if (Clock::now() < grid.end) break;
        Result late;
        late.kind = FaultKind::time;
        late.text = "it did not end within " + std::to_string(static_cast<long>(grid.launch.seconds)) + " s";
        grid.fail(std::move(late));
    }
  }
}

// Headers with functions for kernels: atomicAdd, __shfl_sync, half precision, cooperative groups, CUB, Thrust.
bool is_header_of_cuda(std::string_view file) {
  constexpr std::string_view kParts[] = {"_functions.h",   "_intrinsics.h",   "/cuda_fp", "/cuda_bf16",
                                         "/cuda_pipeline", "/cuda_awbarrier", "/crt/",    "/cooperative_groups",
                                         "/include/cuda/", "/include/cub/",   "/cccl/",   "/include/thrust/",
                                         "/include/nv/"};
  return std::ranges::any_of(kParts, [file](std::string_view part) { return file.find(part) != file.npos; });
}

}  // namespace

Result Block::result() const {
  Result r;
  r.kind = m_.fault.kind;
  r.text = m_.fault.text;
  r.address = m_.fault.address;
  r.size = m_.fault.size;
  r.writes = m_.fault.writes;
  std::copy_n(m_.block, 3, r.block);
  for (int i = 0; i < 3; ++i) r.thread[i] = static_cast<uint32_t>(special(static_cast<Special>(i), m_.fault.lane));
  if (!code_ || step_ >= code_->steps.size()) return r;
  if (r.kind == FaultKind::not_computed) r.text = code_->refusals[code_->steps[step_].extra];
  if (r.kind == FaultKind::hazard)
    for (const SharedVariable& v : program_.codes[function_].shared_variables)
      if (r.address - v.begin < v.bytes) r.shared_variable = v.name;
  locate(*code_, step_, &r);
  return r;
}

void Block::locate(const Code& code, uint32_t step, Result* r) const {
  const uint32_t source = code.steps[step].source;
  if (source >= code.function->body.size()) return;
  const ptx::Instruction& i = code.function->body[source];
  r->instruction = i.opcode;
  for (const std::string_view modifier : i.modifiers) r->instruction += modifier;
  const auto file_of = [&](const ptx::Location& at) {
    const auto file = program_.module.files.find(at.file);
    return file == program_.module.files.end() ? std::string_view() : std::string_view(file->second);
  };
  // Out of CUDA's own headers, to the line that uses them; places that only they have stay.
  const std::vector<ptx::Location>& all = code.function->locations;
  for (uint32_t at = i.location; at; at = all[at - 1].caller) {
    const bool of_cuda = is_header_of_cuda(file_of(all[at - 1]));
    if (of_cuda && all[at - 1].caller) continue;
    const ptx::Location& shown = all[(of_cuda ? i.location : at) - 1];
    r->file = file_of(shown);
    r->line = shown.line;
    return;
  }
}

namespace {

Result not_possible(const char* why) {
  Result none;
  none.kind = FaultKind::not_computed;
  none.text = why;
  return none;
}

Result run_grid(const Program& program, uint32_t function, const Launch& launch, Memory& memory, Children& children,
                Clock::time_point end) {
  constexpr size_t kMostShared = size_t{1} << 20;
  const uint64_t threads_of_block = uint64_t{launch.block[0]} * launch.block[1] * launch.block[2];
  if (program.codes[function].shared_bytes + launch.dynamic_shared > kMostShared || threads_of_block > 1024 ||
      !threads_of_block)
    return not_possible("a block larger than any device's");
  uint64_t clusters = 1;
  for (int i = 0; i < 3; ++i) {
    if (!launch.cluster[i] || launch.grid[i] % launch.cluster[i])
      return not_possible("a grid that is no whole number of clusters");
    clusters *= launch.grid[i] / launch.cluster[i];
  }
  Grid grid{program, function, launch, memory, children, clusters, end, {}, {}, {}, {}};
  std::vector<std::thread> others;
  const auto threads = static_cast<unsigned>(std::min<uint64_t>(launch.threads, clusters));
  for (unsigned i = 1; i < threads; ++i) others.emplace_back([&grid] { work(grid); });
  work(grid);
  for (std::thread& one : others) one.join();
  return grid.result;
}

// Page by page, as what lies there may be several blocks of memory.
bool is_usable(Memory& memory, uint64_t at, size_t bytes, bool writes, Result* fault) {
  Extent known;
  for (uint64_t done = 0; done < bytes; done = known.begin + known.size - at) {
    if (memory.find(at + done, 1, writes, &known) != Memory::Found::no && known.size) continue;
    fault->kind = FaultKind::address;
    fault->instruction = writes ? "cudaMemsetAsync or cudaMemcpyAsync" : "cudaMemcpyAsync";
    fault->address = at + done;
    fault->size = bytes - done;
    fault->writes = writes;
    return false;
  }
  return true;
}

// cudaMemcpyAsync and cudaMemsetAsync of a kernel's.
Result move(const Child& child, Memory& memory) {
  Result r;
  const bool copies = child.does == Child::Does::copy;
  if (!is_usable(memory, child.to, child.bytes, true, &r)) return r;
  if (copies && !is_usable(memory, child.from, child.bytes, false, &r)) return r;
  auto* const to = reinterpret_cast<void*>(child.to);
  if (copies)
    std::memmove(to, reinterpret_cast<const void*>(child.from), child.bytes);
  else
    std::memset(to, child.value, child.bytes);
  if (memory.follows() && child.bytes) {
    if (copies) memory.used(child.from, child.bytes, false);
    memory.used(child.to, child.bytes, true);
  }
  return r;
}

}  // namespace

void set_cluster(const Program& program, uint32_t function, Launch* launch) {
  const uint32_t(&own)[3] = program.module.functions[function].cluster;
  for (int i = 0; i < 3; ++i) launch->cluster[i] = own[0] ? own[i] : 1;
}

// A grid's children run before what was launched behind it, for it has only ended when they have.
Result run(const Program& program, uint32_t function, const Launch& launch, Memory& memory) {
  const Clock::time_point end =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(launch.seconds));
  Children children;
  Result result = run_grid(program, function, launch, memory, children, end);
  std::vector<Child> waiting = children.take();
  while (result.kind == FaultKind::none && !waiting.empty()) {
    const Child child = std::move(waiting.back());
    waiting.pop_back();
    if (child.does == Child::Does::launch) {
      Launch one = launch;
      std::copy_n(child.grid, 3, one.grid);
      std::copy_n(child.block, 3, one.block);
      one.dynamic_shared = child.dynamic_shared;
      one.parameters = child.parameters;
      one.workspace = 0;
      set_cluster(program, child.function, &one);
      result = run_grid(program, child.function, one, memory, children, end);
      if (child.function != function) result.kernel = program.module.functions[child.function].name;
      std::ranges::move(children.take(), std::back_inserter(waiting));
    } else {
      result = move(child, memory);
    }
  }
  children.release(memory);
  return result;
}

}  // namespace devtrace::simulate::kernels
