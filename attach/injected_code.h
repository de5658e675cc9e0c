// What a borrowed thread of the target runs: it makes a new one. And what that runs: it opens the library, calls a
// function of it, waits until the answer has been read, takes these pages away and ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace devtrace::attach {

// Lies behind the code, in memory that the thread may write. injected_code.cpp names the places by their offsets.
struct InjectedData {
  enum State : uint32_t { running = 0, called = 1, not_opened = 2 };

  // Addresses in the target.
  uint64_t pthread_self, pthread_detach, dlopen, dlsym, dlerror, munmap;
  uint64_t pages, bytes;  // what is taken away at the end
  uint64_t function;      // 0: the library is opened, and the function looked up
  uint64_t arguments[3];
  uint64_t pause[2];  // between looks for `read`: seconds, nanoseconds
  uint32_t flags;     // of dlopen
  uint32_t state;
  uint32_t result;    // of the function
  uint32_t read;      // set from outside: the answer has been read
  uint32_t patience;  // looks before it ends all the same
  uint32_t made;      // by pthread_create's answer: 0 once there is the new thread
  char name[64];      // of the function
  char library[4096];
  char options[8192];
  char reply[4096];  // of the function, or what dlopen says
};

constexpr size_t kPage = 4096;
constexpr size_t kStackBytes = 16 * kPage;  // at the end of the pages, for what the borrowed thread calls
constexpr size_t kInjectedBytes = kPage + (sizeof(InjectedData) + kPage - 1) / kPage * kPage + kStackBytes;

// The code's bytes; it may lie anywhere. The new thread begins at its start, the borrowed one at `kMakeThread`: with
// pthread_create's arguments, then the data's address, then that of pthread_create.
std::string_view injected_code();
constexpr size_t kMakeThread = 512;

}  // namespace devtrace::attach
