#include "tracker/evidence/source/prologue.h"

#include <algorithm>
#include <cstring>

namespace devtrace::evidence {
namespace {

constexpr int kRsp = 4, kRbp = 5;
constexpr int kArgumentRegisters[] = {7, 6, 2, 1, 8, 9};

bool is_saved_register(int number) {
  return number == 3 || number == 5 || number >= 12;
}

// The operands of an instruction with a ModRM byte.
struct DecodedOperands {
  int reg = 0;
  bool memory = false;
  int rm = 0;  // the register, or the memory's base; -1: no plain base
  int displacement = 0;
  size_t size = 0;  // of ModRM and what belongs to it; 0: the code ends
};

DecodedOperands read_operands(const uint8_t* at, size_t left, uint8_t rex) {
  DecodedOperands found;
  if (left < 1) return found;
  const uint8_t modrm = at[0];
  const int mod = modrm >> 6;
  found.reg = (modrm >> 3 & 7) | (rex & 4 ? 8 : 0);
  found.rm = (modrm & 7) | (rex & 1 ? 8 : 0);
  found.memory = mod != 3;
  size_t size = 1;
  if (found.memory && (modrm & 7) == 4) {
    if (left < 2) return {};
    const uint8_t sib = at[1];
    found.rm = (sib >> 3 & 7) == 4 && !(rex & 2) ? (sib & 7) | (rex & 1 ? 8 : 0) : -1;
    if (mod == 0 && (sib & 7) == 5) return {};
    size = 2;
  } else if (mod == 0 && (modrm & 7) == 5) {  // relative to the instruction
    found.rm = -1;
    size += 4;
  }
  if (mod == 1) {
    if (left < size + 1) return {};
    found.displacement = static_cast<int8_t>(at[size]);
    size += 1;
  } else if (mod == 2) {
    if (left < size + 4) return {};
    int32_t value;
    std::memcpy(&value, at + size, 4);
    found.displacement = value;
    size += 4;
  }
  found.size = size <= left ? size : 0;
  return found;
}

class PrologueReader {
 public:
  PrologueReader() {
    holds_.fill(-1);
    for (int i = 0; i < 6; ++i) holds_[static_cast<size_t>(kArgumentRegisters[i])] = i;
  }

  void move(const DecodedOperands& operands, bool to_rm, bool whole) {
    const auto reg = static_cast<size_t>(operands.reg);
    if (operands.memory) {
      if (!to_rm) return overwrite(reg);
      if (whole && holds_[reg] >= 0 && (operands.rm == kRsp || operands.rm == kRbp))
        kept_[static_cast<size_t>(holds_[reg])].push_back({operands.rm, true, operands.displacement});
      return;
    }
    const size_t from = to_rm ? reg : static_cast<size_t>(operands.rm);
    const size_t to = to_rm ? static_cast<size_t>(operands.rm) : reg;
    const int argument = whole ? holds_[from] : -1;
    overwrite(to);
    holds_[to] = argument;
    if (argument >= 0 && is_saved_register(static_cast<int>(to)))
      kept_[static_cast<size_t>(argument)].push_back({static_cast<int>(to), false, 0});
  }

  void overwrite(size_t reg) {
    if (holds_[reg] >= 0)
      std::erase_if(kept_[static_cast<size_t>(holds_[reg])],
                    [&](const ValuePlace& each) { return !each.in_memory && each.base == static_cast<int>(reg); });
    holds_[reg] = -1;
  }

  KeptArguments kept() && { return std::move(kept_); }

 private:
  std::array<int, 16> holds_;  // which argument a register holds now; -1: none
  KeptArguments kept_;
};

}  // namespace

KeptArguments kept_arguments(const uint8_t* code, size_t bytes) {
  PrologueReader reader;
  for (size_t at = 0; at < bytes;) {
    size_t next = at;
    bool vector = false;  // an instruction of the vector unit, by its prefix
    while (next < bytes && (code[next] == 0x66 || code[next] == 0xf2 || code[next] == 0xf3)) {
      vector = true;
      ++next;
    }
    uint8_t rex = 0;
    if (next < bytes && (code[next] & 0xf0) == 0x40) rex = code[next++];
    if (next >= bytes) break;
    const uint8_t opcode = code[next++];
    const auto operands = [&] { return read_operands(code + next, bytes - next, rex); };
    if (opcode >= 0x50 && opcode <= 0x57) {  // push
      at = next;
    } else if (opcode == 0x89 || opcode == 0x8b || opcode == 0x88 || opcode == 0x8a) {  // mov
      const DecodedOperands both = operands();
      if (both.size == 0 || vector) break;
      reader.move(both, opcode == 0x89 || opcode == 0x88, (rex & 8) != 0);
      at = next + both.size;
    } else if (opcode == 0x8d || opcode == 0x63) {  // lea, movsxd
      const DecodedOperands both = operands();
      if (both.size == 0) break;
      reader.overwrite(static_cast<size_t>(both.reg));
      at = next + both.size;
    } else if (opcode == 0x83 || opcode == 0x81) {  // sub and and of the stack pointer
      const DecodedOperands both = operands();
      const int operation = both.reg & 7;
      if (both.size == 0 || both.memory || both.rm != kRsp || (operation != 5 && operation != 4)) break;
      at = next + both.size + (opcode == 0x83 ? 1 : 4);
    } else if (opcode == 0x31 || opcode == 0x33) {  // xor of a register with itself
      const DecodedOperands both = operands();
      if (both.size == 0 || both.memory) break;
      reader.overwrite(static_cast<size_t>(opcode == 0x31 ? both.rm : both.reg));
      at = next + both.size;
    } else if (opcode == 0x0f && next < bytes) {
      const uint8_t second = code[next++];
      const bool endbr = second == 0x1e;
      const bool moves = second == 0x10 || second == 0x11 || second == 0x28 || second == 0x29 || second == 0x6e ||
                         second == 0x7e || second == 0xd6 || second == 0x16 || second == 0x6c || second == 0x57 ||
                         second == 0xef || second == 0x1f;
      const bool widens = second == 0xb6 || second == 0xb7;
      const DecodedOperands both = operands();
      if (both.size == 0 || !(endbr || moves || widens)) break;
      // A register's byte or half word is widened for good: what was kept before stays.
      if (widens) reader.overwrite(static_cast<size_t>(both.reg));
      if (second == 0x7e && vector && !both.memory && code[at] == 0x66) reader.overwrite(static_cast<size_t>(both.rm));
      at = next + both.size;
    } else {
      break;
    }
  }
  return std::move(reader).kept();
}

}  // namespace devtrace::evidence
