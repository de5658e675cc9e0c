#include "attach/process/remote_object.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

#include "tests/unit/emulated.h"

using namespace devtrace::attach;
namespace process = devtrace::process;

namespace {

// The process in which the test runs is as good as another one.
const process::RemoteMemory memory(getpid());

const LoadedObject& object(const std::vector<LoadedObject>& all, std::string_view begin) {
  return *std::ranges::find_if(all, [&](const LoadedObject& each) { return each.file().starts_with(begin); });
}

}  // namespace

TEST(RemoteObject, FindsWhatTheLoaderFinds) {
  if (devtrace::emulated()) GTEST_SKIP() << "qemu's user mode has no process_vm_readv";
  const auto objects = loaded_objects(process::mappings_of(getpid()));
  const RemoteObject library(memory, object(objects, "libc.so").start);
  for (const char* name : {"malloc", "pthread_create", "dlopen", "dlsym", "dlerror", "munmap", "syscall"}) {
    const Range found = library.symbol(name);
    // Of the library itself: a sanitizer has functions in the place of some.
    EXPECT_EQ(reinterpret_cast<void*>(found.begin), dlsym(dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD), name)) << name;
    EXPECT_GT(found.end, found.begin) << name;
  }
}

TEST(RemoteObject, WhatItDoesNotExportIsNothing) {
  const auto objects = loaded_objects(process::mappings_of(getpid()));
  const RemoteObject library(memory, object(objects, "libc.so").start);
  for (const char* name : {"", "no such function", "mallo", "malloc_"})
    EXPECT_EQ(library.symbol(name).begin, 0u) << name;
  EXPECT_EQ(library.symbol("memcpy").begin, 0u) << "an indirect function has no address yet";
}

TEST(RemoteObject, MemoryThatIsNoObjectHasNoSymbols) {
  const char text[64] = "no ELF file";
  EXPECT_EQ(RemoteObject(memory, reinterpret_cast<uintptr_t>(text)).symbol("malloc").begin, 0u);
  EXPECT_EQ(RemoteObject(memory, 0).symbol("malloc").begin, 0u);
}

TEST(RemoteObject, TheLoaderIsAnObjectWithCode) {
  const auto objects = loaded_objects(process::mappings_of(getpid()));
  const LoadedObject& loader = object(objects, "ld-");
  EXPECT_FALSE(loader.code.empty());
  EXPECT_EQ(std::ranges::count(objects, loader.path, &LoadedObject::path), 1);
}

TEST(LoadedObjects, BeginWhereTheirCodeBelongsTo) {
  const auto mapping = [](uintptr_t begin, uint64_t offset, bool executable) {
    process::Mapping one;
    one.begin = begin;
    one.end = begin + 0x1000;
    one.offset = offset;
    one.executable = executable;
    one.path = "/lib/libx.so";
    return one;
  };
  // A view of the file lies below, another above.
  const auto found =
      loaded_objects({mapping(0x10000, 0, false), mapping(0x11000, 0x5000, false), mapping(0x20000, 0, false),
                      mapping(0x21000, 0x1000, true), mapping(0x22000, 0x2000, false), mapping(0x30000, 0, false)});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].start, 0x20000u);
  ASSERT_EQ(found[0].code.size(), 1u);
  EXPECT_EQ(found[0].code[0].begin, 0x21000u);
  EXPECT_TRUE(loaded_objects({mapping(0x10000, 0, false)}).empty()) << "it is only read";
}
