#include "common/rank_table.h"

#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "common/format.h"

namespace devtrace {
namespace {

RankTable* map(int file) {
  void* const at = ::mmap(nullptr, sizeof(RankTable), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  return at == MAP_FAILED ? nullptr : static_cast<RankTable*>(at);
}

}  // namespace

OfferedRankTable::OfferedRankTable() : file_(::memfd_create("devtrace-ranks", MFD_CLOEXEC)) {
  if (file_ < 0 || ::ftruncate(file_, sizeof(RankTable)) != 0) return;
  table_ = map(file_);
  if (!table_) return;
  while (::getrandom(&table_->nonce, sizeof table_->nonce, 0) != sizeof table_->nonce) {
  }
}

OfferedRankTable::~OfferedRankTable() {
  if (table_) ::munmap(table_, sizeof(RankTable));
  if (file_ >= 0) ::close(file_);
}

std::string OfferedRankTable::ticket() const {
  return table_ ? fmt::format("{}:{}:{:x}", ::getpid(), file_, table_->nonce) : "";
}

RankTable* open_rank_table(const char* ticket) {
  int pid = 0, descriptor = -1;
  unsigned long long nonce = 0;
  if (std::sscanf(ticket, "%d:%d:%llx", &pid, &descriptor, &nonce) != 3) return nullptr;
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, descriptor);
  const int file = ::open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) return nullptr;
  struct stat facts;
  RankTable* table = nullptr;
  if (::fstat(file, &facts) == 0 && facts.st_size == sizeof(RankTable)) table = map(file);
  ::close(file);
  if (!table || table->nonce == nonce) return table;
  ::munmap(table, sizeof(RankTable));  // another file has that number by now
  return nullptr;
}

}  // namespace devtrace
