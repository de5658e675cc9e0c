// A block's frames: registers, constants and memory of each call.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "simulate/kernels/block.h"

namespace devtrace::simulate::kernels {
namespace {

constexpr size_t kMostFrames = size_t{1} << 30;   // bytes of all registers
constexpr size_t kMostLocal = size_t{512} << 10;  // a thread, as on hardware
constexpr uint32_t kMostDepth = 4096;             // calls in calls

std::vector<uint64_t> room(size_t bytes) {
  return std::vector<uint64_t>(bytes / 8 + 3);
}
uint8_t* aligned(std::vector<uint64_t>& storage) {
  const auto at = reinterpret_cast<uintptr_t>(storage.data());
  return reinterpret_cast<uint8_t*>((at + 15) & ~uintptr_t{15});
}

}  // namespace

Block::Block(const Program& program, uint32_t function, const Launch& launch, Memory& memory, Children& children)
    : program_(program), function_(function), launch_(launch), children_(children) {
  const Code& code = program.codes[function];
  m_.lane_count = launch.block[0] * launch.block[1] * launch.block[2];
  m_.stride = (m_.lane_count + 31) / 32 * 32;
  // PTX ISA, %total_smem_size: shared memory is given out in units; a compiler's wide load may go to the unit's end.
  constexpr size_t kUnit = 128;
  m_.shared_bytes = (code.shared_bytes + launch.dynamic_shared + kUnit - 1) / kUnit * kUnit;
  shared_ = std::vector<uint64_t>(m_.shared_bytes / 8 + 130);
  // Programs may ask for 1024 bytes of alignment, and count on it.
  const auto at = reinterpret_cast<uintptr_t>(shared_.data());
  m_.shared = reinterpret_cast<uint8_t*>((at + 1023) & ~uintptr_t{1023});
  m_.parameters = launch.parameters.data();
  m_.parameter_bytes = launch.parameters.size();
  m_.memory = &memory;
  m_.follows = memory.follows();
  if (launch.hazards) hazards_ = std::make_unique<SharedHazards>(m_.shared, m_.shared_bytes);
  m_.hazards = hazards_.get();
  m_.quick_shared = hazards_ ? 0 : m_.shared_bytes;
}

Block::~Block() {
  if (m_.local) munmap(m_.local, m_.local_all);
}

Block::Frame* Block::push(const Code& code, Frame* caller) {
  Prepared& prepared = prepared_[&code];
  if (prepared.constants.empty()) {
    if (code.constant_units * m_.stride > kMostFrames) {
      m_.fail(FaultKind::stack, m_.alive.begin()->begin);
      return nullptr;
    }
    prepared.constants = room(code.constant_units * m_.stride + 16);
    prepared.caches.resize(2 * size_t{code.caches});
    fill(code, aligned(prepared.constants), true);
  }
  Frame* frame = nullptr;
  if (!prepared.free.empty()) {
    frames_.push_back(std::move(prepared.free.back()));
    prepared.free.pop_back();
    frame = frames_.back().get();
  } else {
    const size_t bytes = code.register_units * m_.stride + 16;
    const size_t local = code.local_bytes * m_.stride;
    if (local && !m_.local) {
      m_.local_all = kMostLocal * m_.stride;
      void* const all =
          mmap(nullptr, m_.local_all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      m_.local = all == MAP_FAILED ? nullptr : static_cast<uint8_t*>(all);
      if (!m_.local) m_.local_all = 0;
    }
    if (frame_bytes_ + bytes > kMostFrames || local_used_ + local > m_.local_all ||
        (caller && caller->depth >= kMostDepth)) {
      m_.fail(FaultKind::stack, m_.alive.begin()->begin);
      return nullptr;
    }
    frames_.push_back(std::make_unique<Frame>());
    frame = frames_.back().get();
    frame->storage = room(bytes);
    frame->registers = aligned(frame->storage);
    frame->local = local ? m_.local + local_used_ : nullptr;
    frame_bytes_ += bytes;
    local_used_ += local;
  }
  frame->code = &code;
  frame->constants = aligned(prepared.constants);
  frame->caches = prepared.caches.data();
  frame->caller = caller;
  frame->depth = caller ? caller->depth + 1 : 0;
  frame->groups = 0;
  if (code.local_base != kNoSlot) {
    auto* const base = reinterpret_cast<uint64_t*>(frame->registers + code.local_base * m_.stride);
    for (size_t l = 0; l < m_.stride; ++l) base[l] = reinterpret_cast<uint64_t>(frame->local + l * code.local_bytes);
  }
  return frame;
}

// A group less is in it.
void Block::leave(Frame* frame) {
  while (frame && --frame->groups == 0) {
    Frame* const caller = frame->caller;
    const auto at = std::find_if(frames_.rbegin(), frames_.rend(), [&](const auto& one) { return one.get() == frame; });
    prepared_[frame->code].free.push_back(std::move(*at));
    frames_.erase(std::next(at).base());
    frame = caller;  // a frame holds its caller's
  }
}

void Block::enter(const Frame& frame) {
  code_ = frame.code;
  m_.base[0] = frame.registers;
  m_.base[1] = frame.constants;
  m_.cache = frame.caches;
  m_.caches = frame.code->caches;
  m_.more = &frame.code->more;
}

uint64_t Block::special(Special what, uint32_t lane) const {
  const uint32_t in_warp = lane % 32;
  const auto in = [what](Special x) { return static_cast<int>(what) - static_cast<int>(x); };
  switch (what) {
    case Special::tid_x:
      return lane % launch_.block[0];
    case Special::tid_y:
      return lane / launch_.block[0] % launch_.block[1];
    case Special::tid_z:
      return lane / launch_.block[0] / launch_.block[1];
    case Special::ntid_x:
    case Special::ntid_y:
    case Special::ntid_z:
      return launch_.block[in(Special::ntid_x)];
    case Special::ctaid_x:
    case Special::ctaid_y:
    case Special::ctaid_z:
      return m_.block[in(Special::ctaid_x)];
    case Special::clusterid_x:
    case Special::clusterid_y:
    case Special::clusterid_z:
      return m_.block[in(Special::clusterid_x)] / launch_.cluster[in(Special::clusterid_x)];
    case Special::cluster_ctaid_x:
    case Special::cluster_ctaid_y:
    case Special::cluster_ctaid_z:
      return m_.block[in(Special::cluster_ctaid_x)] % launch_.cluster[in(Special::cluster_ctaid_x)];
    case Special::cluster_ctarank:
      return m_.rank;
    case Special::nctaid_x:
    case Special::nctaid_y:
    case Special::nctaid_z:
      return launch_.grid[in(Special::nctaid_x)];
    case Special::nclusterid_x:
    case Special::nclusterid_y:
    case Special::nclusterid_z:
      return launch_.grid[in(Special::nclusterid_x)] / launch_.cluster[in(Special::nclusterid_x)];
    case Special::cluster_nctaid_x:
    case Special::cluster_nctaid_y:
    case Special::cluster_nctaid_z:
      return launch_.cluster[in(Special::cluster_nctaid_x)];
    case Special::cluster_nctarank:
      return uint64_t{launch_.cluster[0]} * launch_.cluster[1] * launch_.cluster[2];
    case Special::laneid:
      return in_warp;
    case Special::warpid:
      return lane / 32;
    case Special::nwarpid:
      return (m_.lane_count + 31) / 32;
    case Special::nsmid:
    case Special::one:
      return 1;
    case Special::lanemask_eq:
      return uint64_t{1} << in_warp;
    case Special::lanemask_le:
      return (uint64_t{2} << in_warp) - 1;
    case Special::lanemask_lt:
      return (uint64_t{1} << in_warp) - 1;
    case Special::lanemask_ge:
      return ~((uint64_t{1} << in_warp) - 1);
    case Special::lanemask_gt:
      return ~((uint64_t{2} << in_warp) - 1);
    case Special::total_smem_size:
      return m_.shared_bytes;
    case Special::dynamic_smem_size:
      return launch_.dynamic_shared;
    case Special::workspace_high:
      return launch_.workspace >> 32;
    case Special::workspace_low:
      return static_cast<uint32_t>(launch_.workspace);
    default:
      return 0;
  }
}

void Block::refresh() {
  for (auto& [code, prepared] : prepared_) fill(*code, aligned(prepared.constants), false);
}

void Block::fill(const Code& code, uint8_t* constants, bool all) {
  for (const Constant& c : code.constants) {
    const bool varies = c.kind == Constant::Kind::special && c.value >= static_cast<uint64_t>(Special::ctaid_x) &&
                        c.value <= static_cast<uint64_t>(Special::cluster_ctarank);
    if (all || varies) fill_one(c, constants + (c.slot & ~kConstant) * m_.stride);
  }
}

void Block::fill_one(const Constant& c, uint8_t* at) {
  uint64_t value = c.value;
  switch (c.kind) {
    case Constant::Kind::global:
      value += c.index < launch_.variables.size() ? launch_.variables[c.index] : 0;
      break;
    case Constant::Kind::dynamic_shared:
      value += program_.codes[function_].shared_bytes;
      break;
    case Constant::Kind::parameters:
      value += reinterpret_cast<uint64_t>(m_.parameters);
      break;
    default:
      break;
  }
  for (uint32_t l = 0; l < m_.stride; ++l, at += c.bytes) {
    if (c.kind == Constant::Kind::special) value = special(static_cast<Special>(c.value), l);
    std::memcpy(at, &value, c.bytes);
  }
}

uint8_t* Block::place(const Frame& frame, const Place& p, uint32_t lane) const {
  if (p.in_local) return frame.local + lane * frame.code->local_bytes + p.offset;
  uint8_t* const base = p.slot & kConstant ? frame.constants : frame.registers;
  return base + (p.slot & ~kConstant) * m_.stride + size_t{lane} * p.bytes;
}

void Block::copy(const Frame& to, const Place& a, const Frame& from, const Place& b, const Lanes& lanes) const {
  const size_t bytes = std::min(a.bytes, b.bytes);
  for (const Run run : lanes)
    for (uint32_t l = run.begin; l < run.end; ++l) std::memcpy(place(to, a, l), place(from, b, l), bytes);
}

// Lanes that call the same function by its address; the others stay.
void Block::by_pointer(Group& group, const CallSite& site, uint32_t* function) {
  const uint64_t* const pointers = m_.at<uint64_t>(site.pointer);
  const uint64_t pointer = pointers[group.lanes.begin()->begin];
  Lanes same, others;
  for (const Run run : group.lanes)
    for (uint32_t l = run.begin; l < run.end; ++l) (pointers[l] == pointer ? same : others).add(l);
  const uint64_t index = (pointer - kFunctionAddress) / 16;
  *function = pointer >= kFunctionAddress && index < program_.codes.size() ? static_cast<uint32_t>(index) : UINT32_MAX;
  if (others.empty()) return;
  apart(group, std::move(others), group.at);
  group.lanes = std::move(same);
}

bool Block::call(Group& group, const Step& step) {
  const CallSite& site = code_->calls[step.extra];
  uint32_t function = site.function;
  if (site.builtin != Builtin::none) {
    builtin(site, *group.frame, group.lanes);
    ++group.at;
    return m_.fault.kind == FaultKind::none;
  }
  if (site.pointer != kNoSlot) by_pointer(group, site, &function);
  if (function == UINT32_MAX || program_.codes[function].steps.empty())
    return m_.fail(FaultKind::trap, group.lanes.begin()->begin, "a call of no function"), false;
  const Code& callee = program_.codes[function];
  Frame* const frame = push(callee, group.frame);
  if (!frame) return false;
  frame->groups = 1;  // group.frame stays held by it
  frame->site = &site;
  frame->return_to = group.at + 1;
  for (size_t i = 0; i < site.arguments.size() && i < callee.parameters.size(); ++i)
    copy(*frame, callee.parameters[i], *group.frame, site.arguments[i], group.lanes);
  group.frame = frame;
  group.at = 0;
  return false;
}

bool Block::ret(Group& group) {
  Frame& frame = *group.frame;
  if (!frame.caller) {
    end_lanes(group.lanes);
    leave(&frame);
    group.lanes.clear();
    release();
    return false;
  }
  const Code& code = *frame.code;
  for (size_t i = 0; i < frame.site->results.size() && i < code.results.size(); ++i)
    copy(*frame.caller, frame.site->results[i], frame, code.results[i], group.lanes);
  group.at = frame.return_to;
  group.frame = frame.caller;
  ++frame.caller->groups;
  leave(&frame);
  return false;
}

}  // namespace devtrace::simulate::kernels
