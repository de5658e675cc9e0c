// Sections made by hand, as a damaged or unusual object has them. Real ones: native_test.cpp, objects_test.cpp.
#include <gtest/gtest.h>

#include <cstring>
#include <optional>

#include "binary/elf/loaded.h"

namespace devtrace::elf {
namespace {

// An object with one function "f" in each sort of hash table; a test changes what it will.
struct Image {
  static constexpr uint32_t kHashOfF = 5381 * 33 + 'f';
  Elf64_Sym symbols[2] = {};
  char names[8] = "\0f\0g";
  uint32_t gnu[8] = {1, 1, 1, 0, 0, 0, 1, kHashOfF | 1};  // one bucket, symbol 1; filter of a word; the chain's end
  uint32_t sysv[5] = {1, 2, 1, 0, 0};                     // one bucket, symbol 1; both chains end
  Elf64_Dyn dynamic[6];

  explicit Image(int64_t hashes) {
    symbols[1] = {.st_name = 1, .st_info = STT_FUNC, .st_other = 0, .st_shndx = 1, .st_value = 8, .st_size = 4};
    const auto address = [](const void* what) { return reinterpret_cast<Elf64_Xword>(what); };
    const void* const table = hashes == DT_HASH ? static_cast<const void*>(sysv) : gnu;
    dynamic[0] = {DT_SYMTAB, {address(symbols)}};
    dynamic[1] = {DT_STRTAB, {address(names)}};
    dynamic[2] = {DT_STRSZ, {5}};
    dynamic[3] = {hashes, {address(table)}};
    dynamic[4] = {DT_NULL, {0}};
    dynamic[5] = {DT_NULL, {0}};
  }
  Object object() const {
    const auto begin = reinterpret_cast<uintptr_t>(this);
    return {"made.so", 0, dynamic, begin, begin + sizeof *this};
  }
  std::optional<Elf64_Sym> f() const { return Loaded(object()).symbol("f"); }
  size_t exported() const {
    size_t count = 0;
    Loaded(object()).for_each([&](const Elf64_Sym&, const char* name) { count += std::strcmp(name, "f") == 0; });
    return count;
  }
};

class DynamicSections : public testing::TestWithParam<int64_t> {};

TEST_P(DynamicSections, AFunctionIsFound) {
  const Image image(GetParam());
  ASSERT_TRUE(image.f());
  EXPECT_EQ(image.f()->st_value, image.symbols[1].st_value);
  EXPECT_EQ(image.exported(), 1u);
  EXPECT_FALSE(Loaded(image.object()).symbol("g"));
}

TEST_P(DynamicSections, WithoutBucketsNothingIsThere) {
  Image image(GetParam());
  image.gnu[0] = image.sysv[0] = 0;
  EXPECT_FALSE(image.f());
}

TEST_P(DynamicSections, AChainThatNeverEndsEndsWithTheObject) {
  Image image(GetParam());
  image.sysv[4] = 1;             // symbol 1 follows itself
  image.gnu[7] &= ~1u;           // no entry is the last
  image.symbols[1].st_name = 3;  // so that it is not the one
  EXPECT_FALSE(image.f());
  image.exported();
}

TEST_P(DynamicSections, WhatLiesOutsideTheObjectIsNotRead) {
  for (size_t entry : {0, 1, 3}) {
    Image image(GetParam());
    image.dynamic[entry].d_un.d_ptr = reinterpret_cast<Elf64_Xword>(&image + 1) + 64;
    EXPECT_FALSE(image.f()) << entry;
    image.dynamic[entry].d_un.d_ptr = 1;  // misaligned as well
    EXPECT_FALSE(image.f()) << entry;
  }
  Image image(GetParam());
  image.symbols[1].st_name = 0x7fffffff;
  EXPECT_FALSE(image.f());
  image.sysv[2] = image.gnu[6] = 0x40000000;
  EXPECT_FALSE(image.f());
  image.exported();
}

INSTANTIATE_TEST_SUITE_P(Hashes, DynamicSections, testing::Values(DT_HASH, DT_GNU_HASH),
                         [](const auto& each) { return each.param == DT_HASH ? "SysV" : "Gnu"; });

TEST(DynamicSection, ANameThatNeverEndsIsCutOff) {
  Image image(DT_HASH);
  std::memset(image.names, 'x', sizeof image.names);
  EXPECT_STREQ(Loaded(image.object()).name_of(1), "");
}

TEST(DynamicSection, OfNoSectionNothingIsKnown) {
  const Loaded none(Object{"none.so", 0, nullptr});
  EXPECT_FALSE(none.symbol("f"));
  EXPECT_EQ(none.value(DT_SONAME), 0u);
  EXPECT_EQ(none.number_of("V_1"), 0u);
}

}  // namespace
}  // namespace devtrace::elf
