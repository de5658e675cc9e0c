// How pages of this process are protected, and a way to write where they are not to be written (RELRO).
#pragma once

#include <cstddef>
#include <cstdint>

namespace devtrace::interpose {

// The kernel's list of mappings as it was when it was first asked. Allocates nothing but pages of its own.
class PageProtection {
 public:
  PageProtection() = default;
  ~PageProtection();
  PageProtection(const PageProtection&) = delete;
  PageProtection& operator=(const PageProtection&) = delete;

  // PROT_… of the page; -1: nothing is mapped there, or nobody tells.
  int of(uintptr_t address);

  // Writes an aligned word. The page has the same protection afterwards; false: it cannot be written.
  bool write(uintptr_t address, uintptr_t value);

 private:
  struct Range {
    uintptr_t begin, end;
    int protection;
  };
  void read();

  Range* ranges_ = nullptr;
  size_t count_ = 0, room_ = 0;
  bool read_ = false;
};

}  // namespace devtrace::interpose
