#include "binary/elf/loaded.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <string>

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

}  // namespace
}  // namespace devtrace::elf
