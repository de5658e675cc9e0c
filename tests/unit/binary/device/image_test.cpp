#include "binary/device/image.h"

#include <gtest/gtest.h>

#include <cstring>
#include <optional>

#include "tests/unit/binary/device/data.h"

namespace {

using namespace devtrace::device;

// The offsets in the parameter block of `touch` that its code may use as an address.
std::vector<size_t> addresses(const KernelFacts& facts) {
  std::vector<size_t> found;
  for (size_t at = 0; at < 64; at += 8)
    if (facts.reads_address(at)) found.push_back(at);
  return found;
}

// Those that it certainly goes to memory with.
std::vector<size_t> followed(const KernelFacts& facts) {
  std::vector<size_t> found;
  for (size_t at = 0; at < 64; at += 8)
    if (facts.follows_address(at)) found.push_back(at);
  return found;
}

// Those that it writes through, as far as its code tells.
std::vector<size_t> written(const KernelFacts& facts) {
  std::vector<size_t> found;
  for (const Bytes& each : facts.writes)
    for (size_t at = each.begin; at < each.end; at += 8) found.push_back(at);
  return found;
}

void expect_writes(Image& image, const std::string& where) {
  EXPECT_EQ(written(image.kernels["touch"]), (std::vector<size_t>{24, 32})) << where;
  EXPECT_FALSE(image.kernels["touch"].writes_elsewhere) << where << ": its other store is to shared memory";
  EXPECT_EQ(written(image.kernels["ways"]), (std::vector<size_t>{16, 24})) << where << ": a store and an atomic";
  EXPECT_TRUE(image.kernels["ways"].writes_elsewhere) << where << ": by an address out of a table";
  EXPECT_EQ(written(image.kernels["scaled"]), std::vector<size_t>{0}) << where;
}

void expect_touch(const KernelFacts& facts, const std::string& where) {
  ASSERT_TRUE(facts.parameters_known) << where;
  const std::vector<std::pair<size_t, size_t>> layout = {{0, 4}, {8, 8}, {16, 24}, {40, 8}, {48, 8}};
  ASSERT_EQ(facts.parameters.size(), layout.size()) << where;
  for (size_t i = 0; i < layout.size(); ++i) {
    EXPECT_EQ(facts.parameters[i].offset, layout[i].first) << where;
    EXPECT_EQ(facts.parameters[i].size, layout[i].second) << where;
  }
  EXPECT_EQ(addresses(facts), (std::vector<size_t>{8, 24, 32, 40})) << where;
  EXPECT_EQ(followed(facts), (std::vector<size_t>{8, 24, 32})) << where << ": a number that is stored is no address";
}

TEST(Image, CubinsOfEveryArchitecture) {
  for (const int architecture : data::kArchitectures) {
    const data::Image cubin = data::cubin(architecture);
    ASSERT_FALSE(cubin.empty()) << architecture;
    Image image;
    ASSERT_EQ(read_image(data::span(cubin), architecture, &image), ImageState::good);
    ASSERT_EQ(image.kernels.size(), 7u);
    expect_touch(image.kernels["touch"], std::to_string(architecture));
    EXPECT_EQ(image.kernels["touch"].static_shared, 64) << architecture;
    EXPECT_EQ(image.kernels["touch"].max_threads, 256) << architecture;
    EXPECT_EQ(addresses(image.kernels["rows"]), std::vector<size_t>{0}) << architecture << ": a pitch is no address";
    EXPECT_EQ(followed(image.kernels["rows"]), std::vector<size_t>{0}) << architecture;
    EXPECT_EQ(followed(image.kernels["ways"]), (std::vector<size_t>{0, 8, 16, 24, 32})) << architecture;
  }
}

TEST(Image, WhatAKernelWritesThrough) {
  for (const int architecture : data::kArchitectures) {
    const data::Image cubin = data::cubin(architecture);
    Image image;
    ASSERT_EQ(read_image(data::span(cubin), architecture, &image), ImageState::good);
    expect_writes(image, std::to_string(architecture));
  }
  const data::Image text = data::ptx();
  Image image;
  ASSERT_EQ(read_image(data::span(text), 90, &image), ImageState::good);
  expect_writes(image, "PTX");
}

TEST(Image, AnAddressThatIsFollowedOnAConditionIsNotCertain) {
  const auto expect = [](KernelFacts& scaled, const std::string& where) {
    EXPECT_TRUE(scaled.reads_address(8) && scaled.follows_address_perhaps(8)) << where;
    EXPECT_FALSE(scaled.follows_address_perhaps(0)) << where;
    EXPECT_EQ(followed(scaled), std::vector<size_t>{0}) << where;
  };
  for (const int architecture : data::kArchitectures) {
    const data::Image cubin = data::cubin(architecture);
    Image image;
    ASSERT_EQ(read_image(data::span(cubin), architecture, &image), ImageState::good);
    expect(image.kernels["scaled"], std::to_string(architecture));
  }
  const data::Image text = data::ptx();
  Image image;
  ASSERT_EQ(read_image(data::span(text), 90, &image), ImageState::good);
  expect(image.kernels["scaled"], "PTX");
}

// What a variable begins with, zeros filled in; empty: there is none.
std::vector<uint8_t> initial(const Image& image, const std::string& name) {
  const auto found = image.variables.find(name);
  if (found == image.variables.end()) return {};
  std::vector<uint8_t> bytes = found->second.initial;
  bytes.resize(found->second.bytes);
  return bytes;
}

void expect_variables(const Image& image, const std::string& where) {
  using Bytes = std::vector<uint8_t>;
  EXPECT_EQ(initial(image, "x"), (Bytes{0xfd, 0xff, 0xff, 0xff})) << where;
  EXPECT_EQ(initial(image, "bytes"), (Bytes{1, 0, 255, 0, 0, 0, 0, 0})) << where;
  EXPECT_EQ(initial(image, "half"), (Bytes{0, 0, 0, 0, 0, 0, 0xe0, 0x3f})) << where;
  EXPECT_EQ(initial(image, "everywhere"), (Bytes{5, 0, 0, 0})) << where;
  EXPECT_EQ(initial(image, "unset"), Bytes(12)) << where;
  for (const char* name : {"x", "bytes", "half", "everywhere", "unset"}) {
    EXPECT_EQ(image.variables.at(name).managed, std::string(name) == "everywhere") << where << ": " << name;
    EXPECT_TRUE(image.variables.at(name).addresses.empty()) << where << ": " << name;
  }
  ASSERT_EQ(image.variables.at("address_of_x").addresses.size(), 1u) << where;
  const AddressOf& address = image.variables.at("address_of_x").addresses[0];
  EXPECT_EQ(address.offset, 0u) << where;
  EXPECT_EQ(address.variable, "x") << where;
  EXPECT_EQ(address.addend, 0) << where;
}

TEST(Image, VariablesBeginWithTheirValues) {
  const data::Image text = data::ptx();
  Image image;
  ASSERT_EQ(read_image(data::span(text), 90, &image), ImageState::good);
  expect_variables(image, "PTX");
  for (const int architecture : data::kArchitectures) {
    const data::Image cubin = data::cubin(architecture);
    Image compiled;
    ASSERT_EQ(read_image(data::span(cubin), architecture, &compiled), ImageState::good);
    expect_variables(compiled, std::to_string(architecture));
  }
}

// The offsets of the words that blocks of that grid take, with this table behind two lists of six.
std::vector<size_t> taken(const KernelFacts& facts, const unsigned (&grid)[3], const std::vector<uint8_t>& table = {}) {
  std::vector<size_t> found;
  for (size_t at = 0; at < 112; at += 8) {
    const Array* const array = facts.array_at(at);
    const auto number = [&](size_t offset, size_t bytes) -> std::optional<uint64_t> {
      EXPECT_EQ(bytes, 1u);
      if (offset < 96 || offset - 96 >= table.size()) return std::nullopt;
      return table[offset - 96];
    };
    if (array && array->takes(at, grid, number)) found.push_back(at);
    EXPECT_EQ(array != nullptr, facts.reads_address(at) && facts.follows_address(at)) << at;
  }
  return found;
}

TEST(Image, ArraysOfWhichEachBlockTakesAnEntry) {
  for (const int architecture : data::kArchitectures) {
    SCOPED_TRACE(architecture);
    Image image;
    ASSERT_EQ(read_image(data::span(data::cubin(architecture)), architecture, &image), ImageState::good);
    const KernelFacts& listed = image.kernels["listed"];
    EXPECT_EQ(taken(listed, {9, 1, 1}), std::vector<size_t>{8});
    EXPECT_EQ(taken(listed, {1, 3, 1}), (std::vector<size_t>{8, 16, 24}));
    EXPECT_EQ(taken(listed, {1, 99, 1}), (std::vector<size_t>{8, 16, 24, 32})) << "no farther than the parameter";
    EXPECT_EQ(taken(listed, {0, 0, 0}), (std::vector<size_t>{8, 16, 24, 32})) << "nobody knows the grid";
    EXPECT_FALSE(listed.reads_address(0));
    const KernelFacts& tabled = image.kernels["tabled"];
    EXPECT_EQ(taken(tabled, {1, 1, 1}, {2, 0, 0}), (std::vector<size_t>{16, 64}));
    EXPECT_EQ(taken(tabled, {3, 1, 1}, {2, 0, 5}), (std::vector<size_t>{0, 16, 40, 48, 64, 88}));
    EXPECT_EQ(taken(tabled, {3, 1, 1}, {}).size(), 12u) << "the table is not at hand";
    EXPECT_FALSE(tabled.reads_address(96)) << "a table of numbers";
  }
}

TEST(Image, PtxTellsTheSame) {
  const data::Image text = data::ptx();
  Image image;
  ASSERT_EQ(read_image(data::span(text), 90, &image), ImageState::good);
  expect_touch(image.kernels["touch"], "ptx");
  EXPECT_EQ(image.kernels["touch"].max_threads, 256);
  EXPECT_EQ(image.kernels.size(), 7u);
  EXPECT_EQ(followed(image.kernels["rows"]), std::vector<size_t>{0});
  EXPECT_EQ(followed(image.kernels["ways"]), (std::vector<size_t>{0, 8, 16, 24, 32}));
}

TEST(Image, OneKernelOfEachFormat) {
  const data::Image images[] = {data::cubin(80),
                                data::ptx(),
                                data::fat_binary({data::plain(80)}),
                                data::fat_binary({data::with_zstd(80)}),
                                data::fat_binary({data::with_lz4(80)}),
                                data::fat_binary({data::as_ptx()})};
  for (size_t i = 0; i < std::size(images); ++i) {
    KernelFacts facts;
    ASSERT_TRUE(read_kernel(data::span(images[i]), 80, "touch", &facts)) << i;
    expect_touch(facts, std::to_string(i));
    EXPECT_FALSE(read_kernel(data::span(images[i]), 80, "touc", &facts)) << i;
    EXPECT_FALSE(read_kernel(data::span(images[i]), 80, "", &facts)) << i;
  }
}

TEST(Image, TheDevicesOwnCodeComesFirstThenAnothersThenPtx) {
  const data::Image all = data::fat_binary({data::as_ptx(), data::plain(75), data::plain(80), data::with_zstd(90)});
  const std::pair<int, int> expected[] = {{75, 75}, {80, 80}, {86, 80}, {90, 90}, {100, 90}, {120, 90}, {70, 75}};
  for (const auto& [device, read] : expected) {
    KernelFacts facts;
    ASSERT_TRUE(read_kernel(data::span(all), device, "touch", &facts));
    EXPECT_EQ(facts.architecture, read) << device;
  }
}

TEST(Image, AnEntryThatCannotBeUnpackedIsPassedBy) {
  data::FatBinaryEntry torn = data::with_zstd(80);
  torn.packed[torn.packed.size() / 2] ^= 0xff;
  torn.packed.resize(torn.packed.size() - 7);
  const data::Image all = data::fat_binary({torn, data::as_ptx()});
  KernelFacts facts;
  ASSERT_TRUE(read_kernel(data::span(all), 80, "touch", &facts));
  expect_touch(facts, "ptx behind a torn cubin");
}

TEST(Image, SizesComeFromTheImagesThemselves) {
  for (data::Image image : {data::cubin(75), data::cubin(100), data::fat_binary({data::plain(80), data::as_ptx()})}) {
    const size_t own = image.size();
    image.resize(own + 4096, 0x7f);
    EXPECT_EQ(image_at(image.data()).size, own);
    EXPECT_EQ(image_at(image.data(), own).size, own);
    EXPECT_EQ(image_at(image.data(), own - 1).size, 0u) << "torn";
  }
  data::Image text = data::ptx();
  text.push_back(0);
  EXPECT_EQ(image_at(text.data()).size, text.size() - 1);
  EXPECT_EQ(image_at("neither").size, 0u);
  EXPECT_EQ(image_at(nullptr).size, 0u);
}

TEST(Image, TheWrapperLeadsToItsContainer) {
  const data::Image fat = data::fat_binary({data::plain(80)});
  struct {
    uint32_t magic, version;
    const void* data;
    void* more;
  } wrapper{0x466243b1, 1, fat.data(), nullptr};
  EXPECT_EQ(image_at(&wrapper).data, fat.data());
  EXPECT_EQ(image_at(&wrapper).size, fat.size());
}

}  // namespace
