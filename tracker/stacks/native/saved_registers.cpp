#include "tracker/stacks/native/saved_registers.h"

#define UNW_LOCAL_ONLY
#include <libunwind.h>

#include <utility>

namespace devtrace::stacks {

#ifndef __x86_64__
// What PyTorch's operators keep of their arguments is read from x86-64's instructions (prologue.h).
std::optional<SavedRegisters> registers_at(uintptr_t) {
  return std::nullopt;
}
#else
std::optional<SavedRegisters> registers_at(uintptr_t address) {
  constexpr int kMostFrames = 256;
  constexpr std::pair<size_t, int> kSaved[] = {{3, UNW_X86_64_RBX},  {4, UNW_X86_64_RSP},  {5, UNW_X86_64_RBP},
                                               {12, UNW_X86_64_R12}, {13, UNW_X86_64_R13}, {14, UNW_X86_64_R14},
                                               {15, UNW_X86_64_R15}};
  unw_context_t context;
  unw_cursor_t cursor;
  if (unw_getcontext(&context) != 0 || unw_init_local(&cursor, &context) != 0) return std::nullopt;
  for (int i = 0; i < kMostFrames; ++i) {
    unw_word_t ip = 0;
    if (unw_get_reg(&cursor, UNW_REG_IP, &ip) != 0) return std::nullopt;
    if (ip != address) {
      if (unw_step(&cursor) <= 0) return std::nullopt;
      continue;
    }
    SavedRegisters found;
    for (const auto& [number, name] : kSaved) {
      unw_word_t value = 0;
      if (unw_get_reg(&cursor, name, &value) == 0) found.value[number] = value;
    }
    unw_word_t sp = 0;
    if (unw_step(&cursor) > 0 && unw_get_reg(&cursor, UNW_REG_SP, &sp) == 0) found.caller_sp = sp;
    return found;
  }
  return std::nullopt;
}
#endif

}  // namespace devtrace::stacks
