#include "simulate/nccl/region.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <mutex>

namespace devtrace::simulate::nccl {
namespace {

constexpr char kMagic[] = "devtrace-nccl-1";
// Addresses, not memory: only what ranks have under way has pages behind it.
constexpr size_t kData = size_t{1} << 36;
constexpr size_t kGrain = 4096;
constexpr size_t kHead = (sizeof(Shared) + kGrain - 1) / kGrain * kGrain;
// Free memory up to here keeps its pages, as a page that is given back costs a fault when it is used again. Blocks are
// taken at the beginning first.
constexpr size_t kKept = 256 << 20;
// Who waits looks this often whether those that it waits for still live.
constexpr timespec kGlance = {0, 250'000'000};

// What an ncclUniqueId is: where the file is open. It begins with the nonce, as a descriptor's number is given out
// again.
struct Ticket {
  char magic[sizeof kMagic];
  RunningProcess process;
  int file;
  uint64_t nonce;
};
static_assert(sizeof(Ticket) <= sizeof(ncclUniqueId));

Ticket ticket_of(const ncclUniqueId& id) {
  Ticket ticket;
  std::memcpy(static_cast<void*>(&ticket), id.internal, sizeof ticket);
  return ticket;
}

// Regions of this process, each mapped once.
struct Known {
  std::mutex mutex;
  std::map<uint64_t, std::weak_ptr<Region>> regions;  // by nonce
  std::map<uint64_t, int> offered;                    // the files of those that others may still come to
};
Known& known() {
  static auto* all = new Known;
  return *all;
}

void futex(std::atomic<uint32_t>* word, int what, uint32_t value, const timespec* most) {
  syscall(SYS_futex, word, what, value, most, nullptr, 0);
}

}  // namespace

std::shared_ptr<Region> Region::map(int file) {
  void* const at = mmap(nullptr, kHead + kData, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  if (at == MAP_FAILED) return nullptr;
  return std::shared_ptr<Region>(new Region(static_cast<Shared*>(at)));
}

Region::~Region() {
  munmap(shared_, kHead + kData);
}

bool Region::create(ncclUniqueId* id) {
  Ticket ticket = {};
  std::memcpy(ticket.magic, kMagic, sizeof kMagic);
  ticket.process = this_process();
  ticket.file = memfd_create("devtrace-nccl", MFD_CLOEXEC);
  if (ticket.file < 0) return false;
  std::shared_ptr<Region> region;
  if (getrandom(&ticket.nonce, sizeof ticket.nonce, 0) == sizeof ticket.nonce &&
      ftruncate(ticket.file, static_cast<off_t>(kHead + kData)) == 0)
    region = map(ticket.file);
  if (!region) {
    ::close(ticket.file);
    return false;
  }
  region->shared_->nonce = ticket.nonce;
  for (Member& each : region->shared_->members) each.next[kOfStreams] = each.next[kOfHosts] = 1;
  std::memset(id->internal, 0, sizeof id->internal);
  std::memcpy(id->internal, &ticket, sizeof ticket);
  const std::lock_guard lock(known().mutex);
  known().offered[ticket.nonce] = ticket.file;
  return true;
}

std::shared_ptr<Region> Region::open(const ncclUniqueId& id) {
  const Ticket ticket = ticket_of(id);
  if (std::memcmp(ticket.magic, kMagic, sizeof kMagic) != 0) return nullptr;
  std::lock_guard lock(known().mutex);
  std::erase_if(known().regions, [](const auto& each) { return each.second.expired(); });
  std::weak_ptr<Region>& ours = known().regions[ticket.nonce];
  if (std::shared_ptr<Region> region = ours.lock()) return region;
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", ticket.process.pid, ticket.file);
  const int file = ::open(path, O_RDWR | O_CLOEXEC);
  struct stat facts;
  std::shared_ptr<Region> region;
  if (file >= 0 && fstat(file, &facts) == 0 && facts.st_size == static_cast<off_t>(kHead + kData)) region = map(file);
  if (file >= 0) ::close(file);
  if (!region || region->shared_->nonce != ticket.nonce) return nullptr;
  ours = region;
  return region;
}

void Region::close(const ncclUniqueId& id) {
  const std::lock_guard lock(known().mutex);
  const auto at = known().offered.find(ticket_of(id).nonce);
  if (at == known().offered.end()) return;
  ::close(at->second);
  known().offered.erase(at);
}

uint8_t* Region::at(const Part& part) {
  return reinterpret_cast<uint8_t*>(shared_) + kHead + part.offset;
}

bool Region::take(size_t bytes, bool left, Part* part) {
  Shared& s = *shared_;
  *part = {0, bytes, true, left};
  if (bytes == 0 || left) return true;
  const size_t size = (bytes + kGrain - 1) / kGrain * kGrain;
  uint64_t offset = 0;
  size_t i = 0;
  for (; i < s.block_count && s.blocks[i].offset - offset < size; ++i) offset = s.blocks[i].offset + s.blocks[i].size;
  if (s.block_count == std::size(s.blocks) || offset + size > kData) return false;
  std::memmove(&s.blocks[i + 1], &s.blocks[i], (s.block_count - i) * sizeof(Block));
  s.blocks[i] = {offset, size};
  ++s.block_count;
  part->offset = offset;
  return true;
}

void Region::give(const Part& part) {
  if (part.bytes == 0 || part.left) return;
  Shared& s = *shared_;
  Block* const end = s.blocks + s.block_count;
  Block* const block =
      std::lower_bound(s.blocks, end, part.offset, [](const Block& b, uint64_t offset) { return b.offset < offset; });
  if (block == end || block->offset != part.offset) return;
  if (block->offset + block->size > kKept) madvise(at(part), block->size, MADV_REMOVE);
  std::memmove(block, block + 1, static_cast<size_t>(end - block - 1) * sizeof(Block));
  --s.block_count;
}

void Region::sleep(int rank, uint32_t changes) {
  Member& member = shared_->members[rank];
  ++member.sleepers;
  if (member.changed.load() == changes) futex(&member.changed, FUTEX_WAIT, changes, &kGlance);
  --member.sleepers;
}

void Region::wake(int rank) {
  Member& member = shared_->members[rank];
  ++member.changed;
  if (member.sleepers.load()) futex(&member.changed, FUTEX_WAKE, INT32_MAX, nullptr);
}

void Region::wake_all() {
  for (int rank = 0; rank < shared_->size; ++rank) wake(rank);
}

RegionLock::RegionLock(Region& region) : shared_(region.shared()) {
  const auto own = static_cast<uint32_t>(getpid());
  for (int spins = 0;; ++spins) {
    uint32_t owner = 0;
    if (shared_.lock.compare_exchange_strong(owner, own, std::memory_order_acquire)) return;
    if (spins < 20) {
      sched_yield();
      continue;
    }
    // It is held for some microseconds. One that is held for long is a dead process's.
    const timespec moment = {0, 100'000};
    nanosleep(&moment, nullptr);
    if (spins % 1000 == 0 && owner != own && start_of_process(static_cast<int>(owner)) == 0 &&
        shared_.lock.compare_exchange_strong(owner, own, std::memory_order_acquire)) {
      shared_.broken = true;
      return;
    }
  }
}

void RegionLock::unlock() {
  if (held_) shared_.lock.store(0, std::memory_order_release);
  held_ = false;
}

}  // namespace devtrace::simulate::nccl
