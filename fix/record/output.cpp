#include "fix/record/output.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace devtrace::fix {
namespace {

constexpr off_t kMiB = 1 << 20;
constexpr off_t kHead = kMiB, kTail = kMiB, kMost = 16 * kMiB;
constexpr off_t kBlock = 1 << 16;  // no file system has larger ones
constexpr off_t kLongestLine = kBlock;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// How much of a line stands before an entry of glog's or of torchrun's: "[rank0]:[W1127 12:03:05.12 f.cpp:7] …", with
// times and numbers of processes. Another process may have begun the line.
size_t before_log_entry(std::string_view line) {
  constexpr std::string_view kForm = "?0000 00:00:00.0";
  for (size_t at = 0; at + kForm.size() <= line.size(); ++at) {
    size_t same = std::string_view("IWEF").find(line[at]) != std::string_view::npos;
    while (same > 0 && same < kForm.size() &&
           (kForm[same] == '0' ? is_digit(line[at + same]) : kForm[same] == line[at + same]))
      ++same;
    if (same < kForm.size()) continue;
    if (at > 0 && line[at - 1] == '[') --at;
    const size_t rank = line.rfind("[rank", at);
    const bool before = rank != line.npos && line.substr(0, at).ends_with("]:") && line.find("]:", rank) + 2 == at;
    return before ? rank : at;
  }
  return line.size();
}

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
  std::vector<std::string> lines;
  off_t size = 0;
  for (std::string line; size < kHead && std::getline(in, line);) {
    size += static_cast<off_t>(line.size());
    line.resize(before_log_entry(line));
    if (line.empty() || line.find("devtrace: ") != line.npos || line.find('\r') != line.npos) continue;
    for (size_t at = 0; (at = line.find("cuda:", at)) != line.npos;)
      for (at += 5; at < line.size() && is_digit(line[at]);) line.erase(at, 1);
    lines.push_back(std::move(line));
  }
  std::ranges::sort(lines);
  std::string all;
  for (const std::string& line : lines) all += line + '\n';
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
