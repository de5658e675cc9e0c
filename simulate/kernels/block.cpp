#include "simulate/kernels/block.h"

#include <algorithm>
#include <cfenv>
#include <utility>

namespace devtrace::simulate::kernels {
namespace {

constexpr uint32_t kManyTicks = 1 << 16;  // of waiting: Machine::ticks
constexpr uint32_t kManyLoops = 1 << 20;  // jumps back

}  // namespace

Block::Group& Block::apart(const Group& from, Lanes lanes, uint32_t at) {
  auto group = std::make_unique<Group>();
  group->frame = from.frame;
  group->at = at;
  group->lanes = std::move(lanes);
  ++from.frame->groups;
  return *groups_.emplace_back(std::move(group));
}

void Block::join(const std::vector<std::unique_ptr<Block>>& cluster, uint32_t rank) {
  m_.cluster.clear();
  for (const auto& block : cluster) m_.cluster.push_back(&block->m_);
  m_.rank = rank;
}

void Block::begin(uint64_t cluster) {
  uint64_t rank = m_.rank;
  for (int i = 0; i < 3; ++i) {
    const uint32_t blocks = launch_.cluster[i], clusters = launch_.grid[i] / blocks;
    m_.block[i] = static_cast<uint32_t>(cluster % clusters * blocks + rank % blocks);
    cluster /= clusters;
    rank /= blocks;
  }
  m_.arrivals.assign(m_.stride, 0);
  refresh();
  m_.alive = Lanes(m_.lane_count);
  if (m_.hazards) m_.hazards->barrier();
  for (Barrier& barrier : barriers_) barrier = {};
  auto first = std::make_unique<Group>();
  first->lanes = m_.alive;
  first->frame = push(program_.codes[function_], nullptr);
  if (first->frame) first->frame->groups = 1;
  groups_.push_back(std::move(first));
}

// The deepest that can go on, of these the one that is furthest behind: what it meets on its way joins it.
Block::Group* Block::choose() {
  std::erase_if(groups_, [](const auto& group) { return group->lanes.empty(); });
  const auto best = [&](Wait wait, bool tired) {
    Group* found = nullptr;
    for (const auto& group : groups_) {
      if (group->wait != wait || group->tired != tired) continue;
      if (!found || group->frame->depth > found->frame->depth ||
          (group->frame->depth == found->frame->depth && group->at < found->at))
        found = group.get();
    }
    return found;
  };
  Group* found = best(Wait::no, false);
  if (!found && best(Wait::no, true)) {
    for (const auto& group : groups_) group->tired = false;
    if (std::exchange(waits_, false)) return nullptr;
    found = best(Wait::no, false);
  }
  if (!found) {
    found = best(Wait::warp, false);
    if (!found) found = best(Wait::warp, true);
    if (found) found->forced = true;
  }
  if (!found) return nullptr;
  for (const auto& other : groups_) {
    if (other.get() == found || other->frame != found->frame || other->at != found->at || other->wait == Wait::barrier)
      continue;
    found->lanes.unite(other->lanes);
    other->lanes.clear();
    --found->frame->groups;
  }
  found->wait = Wait::no;
  found->tired = false;
  return found;
}

uint32_t Block::limit(const Group& group) const {
  uint32_t least = UINT32_MAX;
  for (const auto& other : groups_)
    if (other->frame == group.frame && other->at > group.at && other->wait != Wait::barrier)
      least = std::min(least, other->at);
  return least;
}

Block::State Block::run() {
  std::fesetround(FE_TONEAREST);
  loops_ = 0;
  State state = State::done;
  while (state == State::done && m_.fault.kind == FaultKind::none && !m_.alive.empty()) {
    Group* const group = choose();
    if (group) {
      go_on(*group);
      is_fault();  // of a call's
      if (loops_ > kManyLoops) state = State::goes_on;
    } else if (std::any_of(groups_.begin(), groups_.end(), [](const auto& one) { return one->wait == Wait::no; })) {
      state = State::waits;
    } else {
      m_.fail(FaultKind::time, m_.alive.begin()->begin, "its threads wait at a barrier that not all of them come to");
    }
  }
  std::fesetround(FE_TONEAREST);
  if (m_.fault.kind != FaultKind::none) return State::failed;
  if (state == State::done) groups_.clear();
  return state;
}

// What is only noted lets the block go on.
bool Block::is_fault() {
  if (goes_on(m_.fault.kind)) {
    m_.memory->note(result());
    m_.fault = {};
  }
  return m_.fault.kind != FaultKind::none;
}

// The first one is enough.
void Block::look_for_hazard() {
  Hazard hazard;
  if (!m_.hazards->found(&hazard) || m_.fault.kind != FaultKind::none) return;
  m_.fault.address = hazard.offset;
  m_.fault.size = hazard.size;
  m_.fault.writes = hazard.writes;
  Result other;
  locate(*hazard.other_code, hazard.other_step, &other);
  std::string text = "shared memory that thread (";
  for (int i = 0; i < 3; ++i) {
    if (i) text += ',';
    text += std::to_string(special(static_cast<Special>(i), hazard.other));
  }
  text += hazard.other_wrote ? ") wrote before (" : ") read before (";
  text += other.instruction;
  if (!other.file.empty()) text.append(" at ").append(other.file).append(":").append(std::to_string(other.line));
  text += "), with no barrier between them";
  m_.fail(FaultKind::hazard, hazard.lane, std::move(text));
  m_.hazards = nullptr;
  m_.quick_shared = m_.shared_bytes;
}

void Block::go_on(Group& group) {
  enter(*group.frame);
  const uint32_t limit_at = limit(group);
  const Step* const steps = code_->steps.data();
  Lanes some;
  m_.lanes = &group.lanes;
  for (uint32_t at = group.at;;) {
    const Step& step = steps[at];
    if (step.flow == Flow::next) [[likely]] {
      if (m_.hazards) [[unlikely]]
        m_.hazards->at(code_, at);
      if (step.guard == kNoSlot) {
        step.run(m_, step);
      } else {
        group.lanes.split(m_.at<uint8_t>(step.guard), step.guard_negated, &some, nullptr);
        m_.lanes = &some;
        if (!some.empty()) step.run(m_, step);
        m_.lanes = &group.lanes;
      }
      if (m_.hazards) [[unlikely]]
        look_for_hazard();
      if (m_.fault.kind != FaultKind::none) [[unlikely]] {
        step_ = at;
        if (is_fault()) return;
      }
      ++at;
    } else {
      group.at = step_ = at;
      if (!control(group, step)) return;
      at = group.at;
    }
    if (at >= limit_at) {
      group.at = at;
      return;
    }
  }
}

// False: another group may have to go on.
bool Block::control(Group& group, const Step& step) {
  if (step.flow == Flow::branch) {
    if (step.extra <= group.at) ++loops_;
    const bool back = step.extra <= group.at;
    if (step.guard != kNoSlot) {
      Lanes taken, others;
      group.lanes.split(m_.at<uint8_t>(step.guard), step.guard_negated, &taken, &others);
      if (taken.empty()) return ++group.at, true;
      if (!others.empty()) {
        apart(group, std::move(others), group.at + 1);
        group.lanes = std::move(taken);
        group.at = step.extra;
        if (!back || m_.ticks < kManyTicks) return false;
      }
    }
    group.at = step.extra;
    if (back && (m_.ticks >= kManyTicks || loops_ > kManyLoops)) {
      waits_ |= m_.ticks >= kManyTicks;
      m_.ticks = 0;
      group.tired = true;
      return false;
    }
    return true;
  }
  if (step.guard != kNoSlot) {
    Lanes taken, others;
    group.lanes.split(m_.at<uint8_t>(step.guard), step.guard_negated, &taken, &others);
    if (taken.empty()) return ++group.at, true;
    if (!others.empty()) {
      apart(group, std::move(others), group.at + 1);
      group.lanes = std::move(taken);
    }
  }
  switch (step.flow) {
    case Flow::table:
      return by_table(group, step);
    case Flow::call:
      return call(group, step);
    case Flow::ret:
      return ret(group);
    case Flow::exit:
      end_lanes(group.lanes);
      leave(group.frame);
      group.lanes.clear();
      release();
      return false;
    case Flow::barrier:
      return arrive(group, step, true);
    case Flow::arrive:
      return arrive(group, step, false);
    case Flow::warp_sync:
      if (!std::exchange(group.forced, false) && !is_complete(group, step)) {
        group.wait = Wait::warp;
        return false;
      }
      if (m_.hazards) m_.hazards->warps(group.lanes);
      ++group.at;
      return false;
    case Flow::cluster_wait:
      if (!is_cluster_here(group.lanes)) {
        group.tired = true;
        waits_ = true;
        return false;
      }
      if (m_.hazards) m_.hazards->barrier();
      return ++group.at, true;
    default:
      return ++group.at, true;
  }
}

bool Block::by_table(Group& group, const Step& step) {
  const std::vector<uint32_t>& table = code_->tables[step.extra];
  const uint32_t* const index = m_.at<uint32_t>(step.a);
  std::vector<Lanes> to(table.size());
  for (const Run run : group.lanes)
    for (uint32_t l = run.begin; l < run.end; ++l) {
      if (index[l] >= table.size()) return m_.fail(FaultKind::trap, l, "brx.idx beyond its table"), false;
      to[index[l]].add(l);
    }
  for (size_t i = 0; i < to.size(); ++i) {
    if (to[i].empty()) continue;
    Group& other = apart(group, std::move(to[i]), table[i]);
    other.tired = table[i] <= group.at && m_.ticks >= kManyTicks;
  }
  loops_ += 1;
  group.lanes.clear();
  --group.frame->groups;
  return false;
}

void Block::end_lanes(const Lanes& lanes) {
  std::vector<uint8_t> ends(m_.stride, 0);
  for (const Run run : lanes) std::fill(ends.begin() + run.begin, ends.begin() + run.end, uint8_t{1});
  Lanes left;
  m_.alive.split(ends.data(), true, &left, nullptr);
  m_.alive = std::move(left);
}

// Whether all living threads that each warp's mask names are here.
bool Block::is_complete(const Group& group, const Step& step) const {
  const uint32_t* const mask = m_.at<uint32_t>(step.a);
  uint32_t next = 0;
  for (const Run run : group.lanes)
    for (uint32_t warp = std::max(next, run.begin / 32); warp * 32 < run.end; ++warp) {
      next = warp + 1;
      const uint32_t lane = std::max(run.begin, warp * 32);
      if (mask[lane] & m_.alive.in_warp(warp) & ~group.lanes.in_warp(warp)) return false;
    }
  return true;
}

// Whether every thread of the cluster's has come to its barrier as often as these.
bool Block::is_cluster_here(const Lanes& lanes) const {
  uint32_t most = 0;
  for (const Run run : lanes)
    for (uint32_t l = run.begin; l < run.end; ++l) most = std::max(most, m_.arrivals[l]);
  for (const Machine* const block : m_.cluster)
    for (const Run run : block->alive)
      for (uint32_t l = run.begin; l < run.end; ++l)
        if (block->arrivals[l] < most) return false;
  return true;
}

bool Block::arrive(Group& group, const Step& step, bool waits) {
  const uint32_t lane = group.lanes.begin()->begin;
  const uint32_t id = m_.at<uint32_t>(step.a)[lane];
  if (id >= std::size(barriers_)) return m_.fail(FaultKind::trap, lane, "no such barrier"), false;
  Barrier& barrier = barriers_[id];
  const uint32_t count = group.lanes.count();
  barrier.any = true;
  barrier.arrived += count;
  barrier.wanted = step.b == kNoSlot ? 0 : m_.at<uint32_t>(step.b)[lane];
  if (step.c != kNoSlot) {
    const uint8_t* const p = m_.at<uint8_t>(step.c);
    for (const Run run : group.lanes)
      for (uint32_t l = run.begin; l < run.end; ++l) barrier.yes += p[l];
  }
  if (waits) {
    group.wait = Wait::barrier;
    group.barrier = id;
    group.step = &step;
  } else {
    ++group.at;
  }
  release();
  return false;
}

// Barriers that all have come to.
void Block::release() {
  const uint32_t alive = m_.alive.count();
  for (uint32_t id = 0; id < std::size(barriers_); ++id) {
    Barrier& barrier = barriers_[id];
    if (!barrier.any || barrier.arrived < (barrier.wanted ? std::min(barrier.wanted, alive) : alive)) continue;
    for (const auto& group : groups_) {
      if (group->wait != Wait::barrier || group->barrier != id || group->lanes.empty()) continue;
      const Step& step = *group->step;
      if (step.d != kNoSlot) {
        enter(*group->frame);
        const uint32_t yes = barrier.yes, all = barrier.arrived;
        for (const Run run : group->lanes)
          for (uint32_t l = run.begin; l < run.end; ++l) {
            if (step.mode == 1)
              m_.at<uint32_t>(step.d)[l] = yes;
            else
              m_.at<uint8_t>(step.d)[l] = step.mode == 2 ? yes == all : yes != 0;
          }
      }
      group->wait = Wait::no;
      ++group->at;
    }
    barrier = {};
    if (m_.hazards) m_.hazards->barrier();
  }
}

}  // namespace devtrace::simulate::kernels
