#include "simulate/model/image.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "simulate/model/image_parts.h"

namespace devtrace::sim {
namespace {

// What an ELF object spans: its section headers come last.
size_t elf_size(const uint8_t* data) {
  uint64_t sections;
  uint16_t size, count;
  std::memcpy(&sections, data + 0x28, 8);
  std::memcpy(&size, data + 0x3a, 2);
  std::memcpy(&count, data + 0x3c, 2);
  return sections + static_cast<size_t>(size) * count;
}

}  // namespace

void tidy(std::vector<Bytes>* ranges) {
  std::sort(ranges->begin(), ranges->end(), [](Bytes a, Bytes b) { return a.begin < b.begin; });
  std::vector<Bytes> joined;
  for (Bytes r : *ranges) {
    if (!joined.empty() && r.begin <= joined.back().end)
      joined.back().end = std::max(joined.back().end, r.end);
    else
      joined.push_back(r);
  }
  *ranges = std::move(joined);
}

void subtract(std::vector<Bytes>* from, const std::vector<Bytes>& what) {
  std::vector<Bytes> left;
  auto next = what.begin();
  for (Bytes r : *from) {
    while (next != what.end() && next->end <= r.begin) ++next;
    for (auto cut = next; cut != what.end() && cut->begin < r.end; ++cut) {
      if (r.begin < cut->begin) left.push_back({r.begin, cut->begin});
      r.begin = std::min(cut->end, r.end);
    }
    if (r.begin < r.end) left.push_back(r);
  }
  *from = std::move(left);
}

ImageState read_image(const void* data, int architecture, Image* image) {
  if (!data) return ImageState::unknown;
  auto* bytes = static_cast<const uint8_t*>(data);
  if (is_cubin(bytes)) return read_cubin(bytes, elf_size(bytes), image) ? ImageState::good : ImageState::unknown;
  if (is_fat_binary(data)) {
    FatEntry entry;
    bool unreadable = false;
    if (!choose_entry(data, architecture, &entry, &unreadable)) {
      image->opaque = unreadable;
      return unreadable ? ImageState::good : ImageState::other_architecture;
    }
    if (entry.ptx)
      read_ptx(reinterpret_cast<const char*>(entry.bytes.data()), entry.bytes.size(), image);
    else if (!is_cubin(entry.bytes.data()) || !read_cubin(entry.bytes.data(), entry.bytes.size(), image))
      image->opaque = true;
    for (auto& [name, facts] : image->kernels) facts.architecture = entry.architecture;
    return ImageState::good;
  }
  auto* text = static_cast<const char*>(data);
  if (is_ptx(text)) {
    read_ptx(text, std::strlen(text), image);
    return ImageState::good;
  }
  return ImageState::unknown;
}

}  // namespace devtrace::sim
