#include "binary/elf/file.h"

#include <gtest/gtest.h>

namespace devtrace::elf {
namespace {

TEST(File, SectionsOfThisProgramAndOfNonsense) {
  const File self("/proc/self/exe");
  EXPECT_TRUE(self.has(".debug_line"));
  EXPECT_TRUE(self.has(".text"));
  EXPECT_FALSE(self.has(".debug"));
  EXPECT_FALSE(File("/proc/self/status").has(".text"));
  EXPECT_FALSE(File("/nowhere").has(".text"));
  EXPECT_FALSE(File("/").has(".text"));
}

TEST(File, OfAProgramTheSymbolsAndSegmentsAreKnown) {
  const File self("/proc/self/exe");
  EXPECT_TRUE(self.is_elf());
  EXPECT_TRUE(self.has_segment(PT_INTERP));
  EXPECT_FALSE(self.has_segment(PT_SHLIB));
  bool main = false;
  self.for_each_symbol([&](const Elf64_Sym&, std::string_view name) { main = main || name == "main"; });
  EXPECT_TRUE(main);
  EXPECT_FALSE(File("/proc/self/status").is_elf());
  EXPECT_FALSE(File("/nowhere").has_segment(PT_INTERP));
}

}  // namespace
}  // namespace devtrace::elf
