#include <dlfcn.h>
#include <gtest/gtest.h>

#include "binary/elf/loaded.h"
#include "interpose/linking/original.h"

using devtrace::elf::find_in_file;
using devtrace::interpose::find_in_library;

TEST(FindInLibrary, FindsWhatTheLoaderFinds) {
  for (const char* name : {"malloc", "strlen", "pthread_create", "realpath", "memcpy"})
    EXPECT_EQ(find_in_library("libc.so", name), find_in_file("libc.so.6", name)) << name;
}

TEST(FindInLibrary, ALibraryIsCalledByItsWholeName) {
  EXPECT_NE(find_in_library("libc.so", "malloc"), nullptr);
  for (const char* library : {"libc", "lib", "", "libc.s", "bc.so"})
    EXPECT_EQ(find_in_library(library, "malloc"), nullptr) << library;
}
