#include "fix/record/output.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>

namespace devtrace::fix {
namespace {

constexpr off_t kMiB = 1 << 20;
constexpr off_t kHead = kMiB, kTail = kMiB, kMost = 16 * kMiB;
constexpr off_t kBlock = 1 << 16;  // no file system has larger ones
constexpr off_t kLongestLine = kBlock;

}  // namespace

void keep_ends(const std::filesystem::path& output) {
  struct stat is {};
  if (stat(output.c_str(), &is) != 0 || !S_ISREG(is.st_mode) || is.st_blocks * 512 <= kMost) return;
  const int file = open(output.c_str(), O_WRONLY | O_CLOEXEC);
  if (file < 0) return;
  const off_t end = (is.st_size - kTail) / kBlock * kBlock;
  if (end > kHead && fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, kHead, end - kHead) != 0) {
    // A file system without holes in files: what is behind the head goes, and what comes stands where it would.
    if (ftruncate(file, kHead) == 0) [[maybe_unused]]
      const int longer = ftruncate(file, is.st_size);
  }
  close(file);
}

uint64_t not_kept(const std::filesystem::path& output) {
  const int file = open(output.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  const off_t data = lseek(file, kHead, SEEK_DATA);  // behind the hole
  close(file);
  return static_cast<uint64_t>(std::max<off_t>(0, data - kHead));
}

size_t printed(const std::filesystem::path& output) {
  std::ifstream in(output, std::ios::binary);
  std::string all;
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  for (std::string line; all.size() < kHead && std::getline(in, line);) {
    if (line.find("devtrace: ") != line.npos || line.find('\r') != line.npos) continue;
    for (size_t at = 0; (at = line.find("cuda:", at)) != line.npos;)
      for (at += 5; at < line.size() && digit(line[at]);) line.erase(at, 1);
    all += line + '\n';
  }
  return std::hash<std::string>{}(all);
}

std::string last_line(const std::filesystem::path& output) {
  std::ifstream in(output, std::ios::binary | std::ios::ate);
  in.seekg(std::max<off_t>(0, static_cast<off_t>(in.tellg()) - kLongestLine));
  std::string found;
  for (std::string line; std::getline(in, line);)
    if (line.find_first_not_of(std::string_view(" \t\r\0", 4)) != line.npos && line.find("devtrace: ") == line.npos)
      found = line;
  return found.substr(0, 300);
}

}  // namespace devtrace::fix
