// The readers run in users' processes, on whatever these load: torn and changed images may tell nonsense, but nothing
// may be read outside of them. Every image ends where a page that cannot be read begins.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "binary/device/image.h"
#include "tests/unit/binary/device/data.h"

namespace {

using namespace devtrace::device;

// Memory that ends with a page nobody may touch.
class Edge {
 public:
  explicit Edge(size_t most) {
    page_ = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    bytes_ = (most + page_ - 1) / page_ * page_ + page_;
    memory_ =
        static_cast<uint8_t*>(::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ::mprotect(memory_ + bytes_ - page_, page_, PROT_NONE);
  }
  ~Edge() { ::munmap(memory_, bytes_); }
  Edge(const Edge&) = delete;
  Edge& operator=(const Edge&) = delete;
  View put(const data::Image& image) {
    uint8_t* const at = memory_ + bytes_ - page_ - image.size();
    std::copy(image.begin(), image.end(), at);
    return {at, image.size()};
  }

 private:
  size_t page_, bytes_;
  uint8_t* memory_;
};

void read_all(Edge& edge, const data::Image& image) {
  const View span = edge.put(image);
  Image all;
  read_image(span, 80, &all);
  KernelFacts facts;
  if (read_kernel(span, 80, "touch", &facts)) facts.reads_address(8);
  if (!image.empty()) image_at(span.data, span.size);
}

std::vector<data::Image> originals() {
  return {data::cubin(75),
          data::cubin(90),
          data::cubin(100),
          data::ptx(),
          data::fat_binary({data::plain(80), data::as_ptx()}),
          data::fat_binary({data::with_zstd(80)}),
          data::fat_binary({data::with_lz4(80)})};
}

TEST(Fuzz, Truncated) {
  for (const data::Image& original : originals()) {
    Edge edge(original.size());
    for (size_t size = 0; size < original.size(); size += size < 256 ? 1 : 37)
      read_all(edge, {original.begin(), original.begin() + static_cast<std::ptrdiff_t>(size)});
  }
}

TEST(Fuzz, Changed) {
  std::mt19937 random(20260101);
  const uint8_t favourites[] = {0, 1, 0x7f, 0x80, 0xff};
  for (const data::Image& original : originals()) {
    Edge edge(original.size());
    for (int round = 0; round < 3000; ++round) {
      data::Image image = original;
      const int changes = 1 + static_cast<int>(random() % 8);
      for (int i = 0; i < changes; ++i) {
        // Half of them in the head, where the sizes are.
        const size_t reach = random() % 2 ? image.size() : std::min<size_t>(image.size(), 128);
        image[random() % reach] =
            random() % 2 ? favourites[random() % std::size(favourites)] : static_cast<uint8_t>(random());
      }
      read_all(edge, image);
    }
  }
}

// Each byte of the tables at a cubin's end, where offsets and sizes are.
TEST(Fuzz, EveryByteOfTheSectionHeaders) {
  for (const int architecture : {75, 100}) {
    const data::Image original = data::cubin(architecture);
    uint64_t sections;
    std::memcpy(&sections, original.data() + 0x28, 8);
    Edge edge(original.size());
    for (size_t at = sections; at < original.size(); ++at) {
      for (const uint8_t value : {0x00, 0x7f, 0xff}) {
        data::Image image = original;
        image[at] = value;
        read_all(edge, image);
      }
    }
  }
}

}  // namespace
