#include "tracker/evidence/source/zip_file.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string_view>

#include "tracker/base/files.h"

namespace devtrace::evidence {
namespace {

// PKWARE's APPNOTE, 4.3: the fields that are read here, by their place in each record.
constexpr std::string_view kEnd = "PK\5\6", kEntry = "PK\1\2", kLocal = "PK\3\4";
constexpr size_t kEndBytes = 22, kEntryBytes = 46, kLocalBytes = 30, kLongestComment = 0xFFFF;
constexpr size_t kLargestDirectory = 16u << 20;

uint64_t number(std::string_view record, size_t at, size_t bytes) {
  uint64_t value = 0;
  for (size_t i = bytes; i-- > 0;) value = value << 8 | static_cast<unsigned char>(record[at + i]);
  return value;
}

class Archive {
 public:
  explicit Archive(const std::string& file) : stream_(file, std::ios::binary | std::ios::ate) {
    if (stream_) size_ = static_cast<uint64_t>(std::max<std::streamoff>(stream_.tellg(), 0));
  }

  std::optional<std::string> member(std::string_view name, size_t most) {
    const uint64_t tail_at = size_ - std::min<uint64_t>(size_, kEndBytes + kLongestComment);
    const std::string tail = bytes(tail_at, size_ - tail_at);
    const size_t end = tail.rfind(kEnd);
    if (end == tail.npos || tail.size() - end < kEndBytes) return std::nullopt;
    const uint64_t length = number(tail, end + 12, 4), offset = number(tail, end + 16, 4);
    // A program in front of the archive (zipapp's first line) moves everything; the directory ends where its end
    // begins.
    if (length > kLargestDirectory || length + offset > tail_at + end) return std::nullopt;
    const uint64_t moved = tail_at + end - length - offset;
    const std::string directory = bytes(offset + moved, length);
    for (std::string_view rest = directory; rest.size() >= kEntryBytes && rest.starts_with(kEntry);) {
      const size_t name_bytes = number(rest, 28, 2);
      const size_t whole = kEntryBytes + name_bytes + number(rest, 30, 2) + number(rest, 32, 2);
      if (whole > rest.size()) break;
      if (rest.substr(kEntryBytes, name_bytes) == name) return contents(rest, moved, most);
      rest.remove_prefix(whole);
    }
    return std::nullopt;
  }

 private:
  // What is not there is missing.
  std::string bytes(uint64_t at, uint64_t count) {
    std::string out(std::min(count, size_ - std::min(at, size_)), '\0');
    stream_.clear();
    stream_.seekg(static_cast<std::streamoff>(at));
    stream_.read(out.data(), static_cast<std::streamsize>(out.size()));
    out.resize(static_cast<size_t>(std::max<std::streamsize>(stream_.gcount(), 0)));
    return out;
  }

  std::optional<std::string> contents(std::string_view entry, uint64_t moved, size_t most) {
    const bool encrypted = number(entry, 8, 2) & 1;
    const uint64_t method = number(entry, 10, 2), length = number(entry, 24, 4);
    if (encrypted || method != 0 || length > most) return std::nullopt;
    const uint64_t at = number(entry, 42, 4) + moved;
    const std::string local = bytes(at, kLocalBytes);
    if (local.size() < kLocalBytes || !local.starts_with(kLocal)) return std::nullopt;
    std::string text = bytes(at + kLocalBytes + number(local, 26, 2) + number(local, 28, 2), length);
    if (text.size() != length) return std::nullopt;
    return text;
  }

  std::ifstream stream_;
  uint64_t size_ = 0;
};

}  // namespace

std::optional<std::string> zip_member(const std::string& path, size_t most) {
  // The innermost part of the path that is a file.
  for (size_t slash = path.rfind('/'); slash != path.npos && slash > 0; slash = path.rfind('/', slash - 1)) {
    const std::string archive = path.substr(0, slash);
    if (files::is_regular(archive)) return Archive(archive).member(std::string_view(path).substr(slash + 1), most);
  }
  return std::nullopt;
}

}  // namespace devtrace::evidence
