#include "simulate/device_files/header_only.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace devtrace::simulate {
namespace {

constexpr uint64_t kLongestHeader = 100'000'000;  // bytes; safetensors' own limit
constexpr size_t kLength = sizeof(uint64_t);      // a file begins with the length of its header

bool is_wanted() {
  const char* const wanted = std::getenv("DEVTRACE_SIM_WEIGHTS");
  return wanted && !std::strcmp(wanted, "header");
}

bool is_named_so(const char* path) {
  constexpr char kEnding[] = ".safetensors";
  const size_t length = std::strlen(path), ending = sizeof kEnding - 1;
  return length > ending && !std::strcmp(path + length - ending, kEnding);
}

// Behind the header: where the last tensor ends, by `"data_offsets":[begin,end]` of each.
uint64_t bytes_of_weights(const char* header, const char* end) {
  constexpr char kOffsets[] = "\"data_offsets\"";
  uint64_t most = 0;
  while (const void* const found = ::memmem(header, static_cast<size_t>(end - header), kOffsets, sizeof kOffsets - 1)) {
    header = static_cast<const char*>(found) + sizeof kOffsets - 1;
    const char* at = header;
    while (at < end && *at != ',') ++at;
    uint64_t offset = 0;
    for (; at < end && *at != ']'; ++at)
      if (*at >= '0' && *at <= '9') offset = offset * 10 + static_cast<uint64_t>(*at - '0');
    if (offset > most) most = offset;
  }
  return most;
}

bool write_all(int file, const char* bytes, size_t count) {
  while (count > 0) {
    const ssize_t written = ::write(file, bytes, count);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes += written;
    count -= static_cast<size_t>(written);
  }
  return true;
}

// `beginning`: the length of the header and the header, of the file that is `opened`.
void put_stand_in(int opened, const char* beginning, size_t size, int flags) {
  const int file = ::memfd_create("weights", MFD_CLOEXEC);
  if (file < 0) return;
  const uint64_t whole = size + bytes_of_weights(beginning + kLength, beginning + size);
  if (write_all(file, beginning, size) && ::ftruncate(file, static_cast<off_t>(whole)) == 0 &&
      ::lseek(file, 0, SEEK_SET) == 0)
    ::dup3(file, opened, flags & O_CLOEXEC);
  ::close(file);
}

void replace(int opened, const char* path, int flags) {
  // What cannot be sought in is no file, nor is what cannot be read. (fstat is no function of older C libraries.)
  const off_t there = ::lseek(opened, 0, SEEK_END);
  uint64_t length = 0;
  const ssize_t got = there < 0 || ::lseek(opened, 0, SEEK_SET) < 0 ? -1 : ::pread(opened, &length, kLength, 0);
  if (got < 0) return;
  if (got != static_cast<ssize_t>(kLength) || length < 2 || length > kLongestHeader) {
    std::fprintf(stderr,
                 "devtrace: --weights header: %s does not begin with the length of a header: it is no file of "
                 "safetensors\n",
                 path);
    return;
  }
  if (static_cast<uint64_t>(there) < kLength + length) {
    std::fprintf(stderr, "devtrace: --weights header: the first %llu bytes of %s are its header, and %llu are there\n",
                 static_cast<unsigned long long>(kLength + length), path, static_cast<unsigned long long>(there));
    return;
  }
  void* const mapped = ::mmap(nullptr, kLength + length, PROT_READ, MAP_PRIVATE, opened, 0);
  if (mapped == MAP_FAILED) return;
  put_stand_in(opened, static_cast<const char*>(mapped), kLength + length, flags);
  ::munmap(mapped, kLength + length);
}

}  // namespace

int header_only(int opened, const char* path, int flags) noexcept {
  if (opened < 0 || !path || (flags & O_ACCMODE) != O_RDONLY || !is_named_so(path)) return opened;
  const int saved = errno;
  if (is_wanted()) replace(opened, path, flags);
  errno = saved;
  return opened;
}

}  // namespace devtrace::simulate
