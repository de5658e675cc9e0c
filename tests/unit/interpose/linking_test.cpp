// What objects import, and where a library has a function.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <string>

#include "binary/elf/loaded.h"
#include "interpose/linking/imports/import_relocations.h"
#include "interpose/linking/imports/import_slots.h"
#include "interpose/linking/imports/page_protection.h"
#include "interpose/linking/original.h"
#include "tests/unit/emulated.h"
#include "tests/unit/interpose/recorder.h"

using namespace devtrace::interpose;

namespace {

using Copy = int (*)(void*, const void*, unsigned long);

// imports.c, opened so that it is bound past this program's hooks: to the stub runtime.
class Imports {
 public:
  explicit Imports(const char* file)
      : handle_(::dlopen((std::string(DEVTRACE_TEST_LIBRARIES "/") + file).c_str(),
                         RTLD_LAZY | RTLD_LOCAL | RTLD_DEEPBIND)) {}
  ~Imports() {
    if (handle_) ::dlclose(handle_);
  }
  Imports(const Imports&) = delete;
  Imports& operator=(const Imports&) = delete;

  // Copies, and says whether the hook has heard of it.
  bool hooked(const char* function) const {
    recorder::clear();
    const auto copy = reinterpret_cast<Copy>(::dlsym(handle_, function));
    int from = 7, to = 0;
    EXPECT_EQ(copy(&to, &from, sizeof to), 0);
    EXPECT_EQ(to, 7);
    return !recorder::copies.empty();
  }

  const link_map& map() const { return *static_cast<const link_map*>(handle_); }
  bool opened() const { return handle_ != nullptr; }

 private:
  void* handle_;
};

uintptr_t slot_of(const Imports& imports, std::string_view wanted) {
  uintptr_t found = 0;
  ImportRelocations(devtrace::elf::object_of(imports.map())).for_each([&](uintptr_t slot, const char* symbol, size_t) {
    if (wanted == symbol && found == 0) found = slot;
  });
  return found;
}

const char* const kIncompleteMaps = "qemu's user mode leaves mappings out of /proc/self/maps";

class ImportSlots : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (devtrace::emulated_large_pages()) GTEST_SKIP() << kIncompleteMaps;
  }
};

}  // namespace

TEST_P(ImportSlots, LeadToTheHookAndBackAgain) {
  const Imports imports(GetParam());
  ASSERT_TRUE(imports.opened()) << ::dlerror();
  for (const char* function : {"imports_call", "imports_call_by_pointer"})
    ASSERT_FALSE(imports.hooked(function)) << function;
  for (int round = 0; round < 3; ++round) {
    EXPECT_GE(import_slots::redirect().slots, 2u);
    EXPECT_TRUE(import_slots::active());
    for (const char* function : {"imports_call", "imports_call_by_pointer"})
      EXPECT_TRUE(imports.hooked(function)) << function;
    EXPECT_EQ(import_slots::redirect().slots, 0u) << "what is redirected stays";
    import_slots::restore();
    EXPECT_FALSE(import_slots::active());
    for (const char* function : {"imports_call", "imports_call_by_pointer"})
      EXPECT_FALSE(imports.hooked(function)) << function;
  }
}

TEST_P(ImportSlots, PagesAreProtectedAsBefore) {
  const Imports imports(GetParam());
  const uintptr_t slot = slot_of(imports, "cudaMemcpy");
  ASSERT_NE(slot, 0u);
  const int before = PageProtection().of(slot);
  import_slots::redirect();
  EXPECT_EQ(PageProtection().of(slot), before);
  import_slots::restore();
  EXPECT_EQ(PageProtection().of(slot), before);
}

TEST_P(ImportSlots, AnotherToolsValueStays) {
  const Imports imports(GetParam());
  const uintptr_t slot = slot_of(imports, "cudaMemcpy");
  PageProtection pages;
  const uintptr_t loaders = *reinterpret_cast<uintptr_t*>(slot);
  const auto tools = reinterpret_cast<uintptr_t>(&slot_of);
  ASSERT_TRUE(pages.write(slot, tools));
  EXPECT_GE(import_slots::redirect().left, 1u);
  EXPECT_EQ(*reinterpret_cast<uintptr_t*>(slot), tools);
  import_slots::restore();
  EXPECT_EQ(*reinterpret_cast<uintptr_t*>(slot), tools);
  pages.write(slot, loaders);
}

TEST_P(ImportSlots, WhatIsLoadedLaterIsNoticed) {
  import_slots::redirect();
  {
    const Imports imports(GetParam());
    import_slots::notice();
    EXPECT_TRUE(imports.hooked("imports_call"));
  }
  import_slots::restore();  // the library is gone, and its slots with it
  import_slots::notice();
  const Imports again(GetParam());
  EXPECT_FALSE(again.hooked("imports_call"));
}

INSTANTIATE_TEST_SUITE_P(BoundLazilyAndAtOnce, ImportSlots, testing::Values("imports_lazy.so", "imports_now.so"),
                         [](const auto& each) { return std::string(each.param).substr(8, each.index ? 3 : 4); });

TEST(PageProtection, AWordIsWrittenWhereNoneMayBe) {
  if (devtrace::emulated_large_pages()) GTEST_SKIP() << kIncompleteMaps;
  void* const page = ::mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const auto address = reinterpret_cast<uintptr_t>(page);
  PageProtection pages;
  EXPECT_EQ(pages.of(address + 8), PROT_READ);
  EXPECT_TRUE(pages.write(address + 8, 42));
  EXPECT_EQ(*reinterpret_cast<uintptr_t*>(address + 8), 42u);
  EXPECT_EQ(PageProtection().of(address), PROT_READ);
  ::munmap(page, 4096);
  EXPECT_EQ(PageProtection().of(address), -1);
  EXPECT_FALSE(PageProtection().write(address, 1));
}

TEST(ImportRelocations, AReferenceHasItsVersion) {
  int versioned = 0;
  devtrace::elf::for_each_object([&](const devtrace::elf::Object& object) {
    if (!object.file().starts_with("libgtest.so")) return false;
    const ImportRelocations relocations(object);
    relocations.for_each([&](uintptr_t slot, const char* symbol, size_t index) {
      EXPECT_NE(PageProtection().of(slot), -1) << symbol;
      const char* const version = relocations.version_of(index);
      if (std::string_view(symbol) == "strlen") {
        EXPECT_STREQ(version, "GLIBC_2.2.5");
      }
      versioned += version != nullptr;
    });
    return true;
  });
  EXPECT_TRUE(versioned > 10 || versioned == 0) << "0: the tests are linked with libgtest.a";
}

TEST(FindInLibrary, FindsWhatTheLoaderFinds) {
  for (const char* name : {"malloc", "strlen", "pthread_create", "realpath", "memcpy"})
    EXPECT_EQ(find_in_library("libc.so", name), devtrace::elf::find_in_file("libc.so.6", name)) << name;
}

TEST(FindInLibrary, ALibraryIsCalledByItsWholeName) {
  EXPECT_NE(find_in_library("libc.so", "malloc"), nullptr);
  for (const char* library : {"libc", "lib", "", "libc.s", "bc.so"})
    EXPECT_EQ(find_in_library(library, "malloc"), nullptr) << library;
}
