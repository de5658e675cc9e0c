#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/programs/matrix/cuda.h"

namespace matrix {

Functions cuda;

void check(int code, const char* what) {
  if (code == 0) return;
  std::fprintf(stderr, "%s: %d\n", what, code);
  std::exit(3);
}

namespace {

void by_linking() {
#define RUNTIME(symbol) cuda.symbol = &::symbol;
#define DRIVER(symbol) cuda.symbol = &::symbol;
#include "tests/programs/matrix/functions.inc"
}

// In the libraries themselves, as whoever has opened them does.
void* in(const char* library, const char* symbol) {
  void* const handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
  void* const found = handle ? dlsym(handle, symbol) : nullptr;
  check(found ? 0 : 1, symbol);
  return found;
}

using Ask = void* (*)(const char* symbol);

// The runtime's functions come by dlsym: CUDA has no other look-up for them.
void fill(Ask ask_driver) {
#define RUNTIME(symbol) cuda.symbol = reinterpret_cast<decltype(&::symbol)>(in("libcudart.so.13", #symbol));
#define DRIVER(symbol) cuda.symbol = reinterpret_cast<decltype(&::symbol)>(ask_driver(#symbol));
#include "tests/programs/matrix/functions.inc"
}

// What the driver is to be asked for, to come by a symbol.
struct Question {
  std::string name;
  int version = CUDA_VERSION;
  unsigned long long flags = CU_GET_PROC_ADDRESS_DEFAULT;

  explicit Question(const char* symbol) : name(symbol) {
    for (const char* suffix : {"_ptsz", "_ptds"})
      if (cut(suffix)) flags = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    struct Abi {
      std::string_view symbol;
      int since;
    };
    constexpr Abi kAbis[] = {
#define ABI(symbol, since) {#symbol, since},
#include "interpose/linking/driver_abis.inc"
#undef ABI
    };
    for (const Abi& abi : kAbis)
      if (abi.symbol == name) version = abi.since;
    for (const char* suffix : {"_v2", "_v3"}) cut(suffix);
  }
  bool cut(std::string_view suffix) {
    if (!std::string_view(name).ends_with(suffix)) return false;
    name.resize(name.size() - suffix.size());
    return true;
  }
};

// Where a tool has a hook the answer is the hook, and everywhere just what the process finds under that symbol.
void* checked(const char* symbol, void* found) {
  check(found && found == dlsym(RTLD_DEFAULT, symbol) ? 0 : 1, symbol);
  return found;
}

void* of_driver(const char* symbol) {
  const Question question(symbol);
  void* found = nullptr;
  CUdriverProcAddressQueryResult status;
  const auto ask = reinterpret_cast<decltype(&::cuGetProcAddress_v2)>(in("libcuda.so.1", "cuGetProcAddress_v2"));
  check(ask(question.name.c_str(), &found, question.version, question.flags, &status), symbol);
  return checked(symbol, found);
}

void* of_runtime(const char* symbol) {
  const Question question(symbol);
  void* found = nullptr;
  cudaDriverEntryPointQueryResult status;
  const auto ask = reinterpret_cast<decltype(&::cudaGetDriverEntryPointByVersion)>(
      in("libcudart.so.13", "cudaGetDriverEntryPointByVersion"));
  check(ask(question.name.c_str(), &found, static_cast<unsigned>(question.version), question.flags, &status), symbol);
  return checked(symbol, found);
}

}  // namespace

const std::vector<Way>& ways() {
  static const std::vector<Way> all = {
      {"linked", by_linking},
      {"dlsym", [] { fill([](const char* symbol) { return in("libcuda.so.1", symbol); }); }},
      {"cuGetProcAddress_v2", [] { fill(of_driver); }},
      {"cudaGetDriverEntryPointByVersion", [] { fill(of_runtime); }},
  };
  return all;
}

}  // namespace matrix
