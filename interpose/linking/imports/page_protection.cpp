#include "interpose/linking/imports/page_protection.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "tracker/base/processor.h"

namespace devtrace::interpose {
namespace {

// "7f12a0000000-7f12a0021000 r-xp …": only what is wanted of it.
class MapsReader {
 public:
  MapsReader() : file_(::open("/proc/self/maps", O_RDONLY | O_CLOEXEC)) {}
  ~MapsReader() {
    if (file_ >= 0) ::close(file_);
  }
  MapsReader(const MapsReader&) = delete;
  MapsReader& operator=(const MapsReader&) = delete;

  bool next(uintptr_t& begin, uintptr_t& end, int& protection) {
    if (!number(begin, '-') || !number(end, ' ')) return false;
    protection = PROT_NONE;
    for (const auto& [letter, bit] : {Letter{'r', PROT_READ}, Letter{'w', PROT_WRITE}, Letter{'x', PROT_EXEC}})
      if (character() == letter) protection |= bit;
    for (int c = character(); c != '\n'; c = character())
      if (c < 0) return false;
    return true;
  }

 private:
  struct Letter {
    char letter;
    int bit;
  };

  int character() {
    if (at_ == size_) {
      ssize_t size;
      while ((size = file_ < 0 ? 0 : ::read(file_, buffer_, sizeof buffer_)) < 0 && errno == EINTR) {
      }
      if (size <= 0) return -1;
      at_ = 0;
      size_ = static_cast<size_t>(size);
    }
    return static_cast<unsigned char>(buffer_[at_++]);
  }
  bool number(uintptr_t& value, char end) {
    value = 0;
    for (int c = character(); c != end; c = character()) {
      const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
      if (digit < 0) return false;
      value = value * 16 + static_cast<uintptr_t>(digit);
    }
    return true;
  }

  int file_;
  char buffer_[4096];
  size_t at_ = 0, size_ = 0;
};

}  // namespace

PageProtection::~PageProtection() {
  if (ranges_) ::munmap(ranges_, room_ * sizeof(Range));
}

void PageProtection::read() {
  read_ = true;
  MapsReader reader;
  Range range{};
  while (reader.next(range.begin, range.end, range.protection)) {
    if (count_ == room_) {
      const size_t wanted = room_ ? room_ * 2 : 1024;
      void* const fresh =
          ranges_ ? ::mremap(ranges_, room_ * sizeof(Range), wanted * sizeof(Range), MREMAP_MAYMOVE)
                  : ::mmap(nullptr, wanted * sizeof(Range), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (fresh == MAP_FAILED) return;
      ranges_ = static_cast<Range*>(fresh);
      room_ = wanted;
    }
    ranges_[count_++] = range;
  }
}

int PageProtection::of(uintptr_t address) {
  if (!read_) read();
  size_t low = 0, high = count_;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (ranges_[middle].end <= address)
      low = middle + 1;
    else
      high = middle;
  }
  return low < count_ && ranges_[low].begin <= address ? ranges_[low].protection : -1;
}

bool PageProtection::write(uintptr_t address, uintptr_t value) {
  const int protection = of(address);
  if (protection < 0) return false;
  void* const page = reinterpret_cast<void*>(address & ~(page_bytes() - 1));
  const bool writable = protection & PROT_WRITE;
  if (!writable && ::mprotect(page, page_bytes(), protection | PROT_WRITE) != 0) return false;
  // Other threads call through the slot meanwhile.
  std::atomic_ref(*reinterpret_cast<uintptr_t*>(address)).store(value, std::memory_order_release);
  if (!writable) ::mprotect(page, page_bytes(), protection);
  return true;
}

}  // namespace devtrace::interpose
