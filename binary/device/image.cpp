#include "binary/device/image.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "binary/device/formats.h"

namespace devtrace::device {
namespace {

// More entries of one fat binary than this are not unpacked in search of one kernel.
constexpr size_t kMostEntries = 4;

void read_entry(const FatEntry& entry, std::string_view only, Image* out) {
  const View inner{entry.bytes.data(), entry.bytes.size()};
  if (entry.ptx)
    read_ptx(inner, only, out);
  else if (!is_cubin(inner) || !read_cubin(inner, only, out))
    out->opaque = true;
  for (auto& [name, facts] : out->kernels) facts.architecture = entry.architecture;
}

bool take(Image& image, std::string_view name, KernelFacts* out) {
  const auto found = image.kernels.find(std::string(name));
  if (found == image.kernels.end() || !found->second.parameters_known) return false;
  *out = std::move(found->second);
  return true;
}

bool reads_always(const KernelFacts& facts, size_t offset) {
  return std::any_of(facts.reads.begin(), facts.reads.end(),
                     [&](Bytes r) { return r.begin < offset + sizeof(uintptr_t) && offset < r.end; });
}

bool hold(const std::vector<Bytes>& words, size_t offset) {
  return std::any_of(words.begin(), words.end(),
                     [&](Bytes r) { return r.begin <= offset && offset + sizeof(uintptr_t) <= r.end; });
}

}  // namespace

const Array* KernelFacts::array_at(size_t offset) const {
  if (reads_always(*this, offset)) return nullptr;
  const auto found = std::find_if(arrays.begin(), arrays.end(), [&](const Array& a) { return a.holds(offset); });
  return found == arrays.end() ? nullptr : &*found;
}

bool KernelFacts::reads_address(size_t offset) const {
  return reads_always(*this, offset) || array_at(offset);
}

bool KernelFacts::follows_address(size_t offset) const {
  if (const Array* const array = array_at(offset)) return array->followed;
  return hold(follows, offset);
}

bool KernelFacts::follows_address_perhaps(size_t offset) const {
  return hold(follows_perhaps, offset) && !follows_address(offset);
}

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

View image_at(const void* data, size_t most) {
  if (!data) return {};
  View all{static_cast<const uint8_t*>(data), most};
  if (const void* inner = unwrapped(all)) all = {static_cast<const uint8_t*>(inner), SIZE_MAX};
  size_t bytes = 0;
  if (is_fat_binary(all))
    bytes = fat_binary_bytes(all);
  else if (is_cubin(all))
    bytes = cubin_bytes(all);
  else if (is_ptx(all))
    bytes = strnlen(reinterpret_cast<const char*>(all.data), std::min(all.size, kMostImage));
  return bytes ? View{all.data, bytes} : View{};
}

std::vector<const void*> relocatable_images(const void* wrapper) {
  std::vector<const void*> all;
  const void* const* list = wrapper ? relocatable_list({static_cast<const uint8_t*>(wrapper), SIZE_MAX}) : nullptr;
  for (; list && *list; ++list) all.push_back(*list);
  return all;
}

ImageState read_image(View image, int architecture, Image* out) {
  if (is_cubin(image)) return read_cubin(image, {}, out) ? ImageState::good : ImageState::unknown;
  if (is_fat_binary(image)) {
    FatEntry entry;
    bool unreadable = false;
    if (!choose_entry(image, architecture, &entry, &unreadable)) {
      out->opaque = unreadable;
      return unreadable ? ImageState::good : ImageState::other_architecture;
    }
    read_entry(entry, {}, out);
    return ImageState::good;
  }
  if (!is_ptx(image)) return ImageState::unknown;
  read_ptx(image, {}, out);
  return ImageState::good;
}

bool read_ptx_text(View image, int architecture, PtxText* out) {
  const auto take_text = [out](const uint8_t* data, size_t size) {
    const auto* const begin = reinterpret_cast<const char*>(data);
    out->text.assign(begin, strnlen(begin, size));
  };
  FatEntry entry;
  out->packed = is_fat_binary(image);
  if (is_ptx(image))
    take_text(image.data, image.size);
  else if (out->packed && ptx_entry(image, architecture, &entry))
    take_text(entry.bytes.data(), entry.bytes.size());
  return !out->text.empty();
}

bool read_kernel(View image, int architecture, std::string_view name, KernelFacts* out) {
  if (name.empty()) return false;
  if (is_fat_binary(image)) {
    FatEntry entry;
    for (size_t nth = 0; nth < kMostEntries && nth_entry(image, architecture, nth, &entry); ++nth) {
      Image found;
      read_entry(entry, name, &found);
      if (take(found, name, out)) return true;
    }
    return false;
  }
  Image found;
  if (is_cubin(image))
    read_cubin(image, name, &found);
  else if (is_ptx(image))
    read_ptx(image, name, &found);
  return take(found, name, out);
}

}  // namespace devtrace::device
