#include "interpose/elf_symbol.h"

#include <gtest/gtest.h>

#include "interpose/original.h"

using devtrace::interpose::elf_symbol;

TEST(ElfSymbol, FindsWhatTheLoaderFinds) {
  for (const char* name : {"dlsym", "dlvsym", "malloc", "strlen", "pthread_create", "realpath", "memcpy"}) {
    void* const handle = elf_symbol("libc.so.6", name);
    if (std::string_view(name) == "memcpy" || std::string_view(name) == "strlen") {
      EXPECT_NE(handle, nullptr) << name;  // chosen for the processor when it is first called
      continue;
    }
    EXPECT_EQ(handle, devtrace::interpose::find_in_library("libc.so", name)) << name;
  }
}

TEST(ElfSymbol, WhatIsNotThereIsNothing) {
  EXPECT_EQ(elf_symbol("libc.so.6", "no such function"), nullptr);
  EXPECT_EQ(elf_symbol("no such library.so", "malloc"), nullptr);
}
