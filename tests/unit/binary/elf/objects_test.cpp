// Objects as they are: those that the loader has mapped, and files.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <string>

#include "binary/elf/file.h"
#include "binary/elf/loaded.h"

namespace devtrace::elf {
namespace {

TEST(Loaded, FindsWhatDlsymFinds) {
  size_t compared = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* object, size_t, void* argument) {
        const Loaded symbols(*object);
        EXPECT_EQ(symbols.find("no such symbol"), nullptr);
        if (std::string(object->dlpi_name).find("libstdc++") == std::string::npos) return 0;
        symbols.for_each([&](const Elf64_Sym& symbol, const char* name) {
          if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC) return;
          EXPECT_NE(symbols.find(name), nullptr) << name;
          ++*static_cast<size_t*>(argument);
        });
        EXPECT_EQ(symbols.find("__cxa_throw"), dlsym(dlopen(object->dlpi_name, RTLD_NOLOAD | RTLD_NOW), "__cxa_throw"));
        return 0;
      },
      &compared);
  EXPECT_GT(compared, 1000u);
}

// memcpy and strlen are chosen for the processor when they are first asked for.
TEST(FindInFile, FindsWhatTheLoaderFinds) {
  void* const libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
  for (const char* name : {"malloc", "strlen", "pthread_create", "realpath", "memcpy"}) {
    EXPECT_NE(find_in_file("libc.so.6", name), nullptr) << name;
    EXPECT_EQ(find_in_file("libc.so.6", name), dlsym(libc, name)) << name;
  }
}

TEST(FindInFile, WhatIsNotThereIsNothing) {
  EXPECT_EQ(find_in_file("libc.so.6", "no such function"), nullptr);
  EXPECT_EQ(find_in_file("no such library.so", "malloc"), nullptr);
}

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
