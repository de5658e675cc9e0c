#include "simulate/model/kernels/way.h"

#include <algorithm>
#include <cstring>

#include "simulate/model/kernels/fault.h"
#include "simulate/model/memory/memory.h"

namespace devtrace::simulate {
namespace {

constexpr size_t kWord = sizeof(uintptr_t);
constexpr size_t kMost = 64 * 1024;  // bytes of memory that are looked through at one place

// The best of the words that are looked at.
class Search {
 public:
  Search(uintptr_t begin, uintptr_t address) : begin_(begin), address_(address) {}

  // Calls each(word, offset) for the aligned words of a range.
  template <typename Each>
  static void words(const uint8_t* from, size_t bytes, const Each& each) {
    for (size_t at = 0; at + kWord <= bytes; at += kWord) {
      uintptr_t word;
      std::memcpy(&word, from + at, sizeof word);
      each(word, at);
    }
  }
  void look(uintptr_t word, const Way& way) {
    if (word < begin_ || word > address_ || (found_ && word <= nearest_)) return;
    found_ = way;
    nearest_ = word;
  }
  const std::optional<Way>& found() const { return found_; }

 private:
  const uintptr_t begin_, address_;
  uintptr_t nearest_ = 0;
  std::optional<Way> found_;
};

// The bytes from an address to its block's end that a kernel in the context may read.
std::span<const uint8_t> readable(CUcontext context, uintptr_t address) {
  Allocation a;
  if (address % kWord != 0 || !find_memory(address, &a) || !usable(context, a)) return {};
  return {reinterpret_cast<const uint8_t*>(address), std::min(kMost, a.base + a.size - address)};
}

}  // namespace

std::optional<Way> way_to(CUcontext context, uintptr_t begin, uintptr_t address, std::span<const uint8_t> parameters,
                          const std::vector<KernelParameter>& layout, const std::vector<KernelVariable>& variables) {
  std::vector<std::pair<uintptr_t, Way>> starts;  // words that may lead on
  Search direct(begin, address);
  const auto look = [&](uintptr_t word, const Way& way) {
    direct.look(word, way);
    starts.emplace_back(word, way);
  };
  for (size_t i = 0; i < layout.size(); ++i)
    if (layout[i].offset + layout[i].bytes <= parameters.size())
      Search::words(parameters.data() + layout[i].offset, layout[i].bytes, [&](uintptr_t word, size_t at) {
        look(word, {static_cast<int>(i), at, {}, -1});
      });
  if (direct.found()) return direct.found();
  for (const KernelVariable& v : variables)
    if (v.address)
      Search::words(reinterpret_cast<const uint8_t*>(v.address), std::min(v.bytes, kMost), [&](uintptr_t word, size_t) {
        look(word, {-1, 0, v.name, -1});
      });
  if (direct.found()) return direct.found();
  Search behind(begin, address);
  for (const auto& [start, way] : starts) {
    const std::span<const uint8_t> bytes = readable(context, start);
    Search::words(bytes.data(), bytes.size(), [&](uintptr_t word, size_t at) {
      Way on = way;
      on.in_memory = static_cast<int64_t>(at);
      behind.look(word, on);
    });
  }
  return behind.found();
}

}  // namespace devtrace::simulate
