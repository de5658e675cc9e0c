// The exported functions by name. Apart from the rest, as this object alone keeps the exported names: in the others
// they mean the functions behind these (tools/stub_library.py, callbacks).
#include "simulate/cuda/symbols.h"

#include <cstring>

namespace {

struct Symbol {
  const char* name;
  void (*function)();
};
#define SYMBOL(name) extern "C" void devtrace_sim_symbol_##name() __asm__(#name);
#include "driver_symbols.inc"
#undef SYMBOL
#define SYMBOL(name) {#name, devtrace_sim_symbol_##name},
constexpr Symbol kSymbols[] = {
#include "driver_symbols.inc"
};
#undef SYMBOL

}  // namespace

namespace devtrace::simulate {

void* exported_function(const char* name) {
  for (const Symbol& s : kSymbols)  // sorted, but looked up a few hundred times a process at most
    if (!std::strcmp(name, s.name)) return reinterpret_cast<void*>(s.function);
  return nullptr;
}

}  // namespace devtrace::simulate
