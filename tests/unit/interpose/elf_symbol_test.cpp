#include "interpose/linking/elf_symbol.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "interpose/linking/original.h"

using devtrace::interpose::elf_symbol;

// memcpy and strlen are chosen for the processor when they are first asked for.
TEST(ElfSymbol, FindsWhatTheLoaderFinds) {
  void* const libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
  for (const char* name : {"malloc", "strlen", "pthread_create", "realpath", "memcpy"}) {
    EXPECT_NE(elf_symbol("libc.so.6", name), nullptr) << name;
    EXPECT_EQ(elf_symbol("libc.so.6", name), dlsym(libc, name)) << name;
    EXPECT_EQ(devtrace::interpose::find_in_library("libc.so", name), elf_symbol("libc.so.6", name)) << name;
  }
}

TEST(ElfSymbol, ALibraryIsCalledByItsWholeName) {
  using devtrace::interpose::find_in_library;
  EXPECT_NE(find_in_library("libc.so", "malloc"), nullptr);
  for (const char* library : {"libc", "lib", "", "libc.s", "bc.so"})
    EXPECT_EQ(find_in_library(library, "malloc"), nullptr) << library;
}

TEST(ElfSymbol, WhatIsNotThereIsNothing) {
  EXPECT_EQ(elf_symbol("libc.so.6", "no such function"), nullptr);
  EXPECT_EQ(elf_symbol("no such library.so", "malloc"), nullptr);
}
