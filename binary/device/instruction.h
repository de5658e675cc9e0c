// One instruction of a kernel's machine code: of Volta's 16-byte encoding and its successors'.
#pragma once

#include <cstddef>
#include <cstdint>

namespace devtrace::device {

constexpr unsigned kZero = 0xff;  // the register that is always 0

// Operations by the low 9 bits of their code.
enum Operation : unsigned {
  kMov = 0x002,
  kFsetp = 0x00b,
  kIsetp = 0x00c,
  kIadd3 = 0x010,
  kLea = 0x011,
  kShf = 0x019,
  kImad = 0x024,
  kImadWide = 0x025,
  kImadHi = 0x027,
  kHfma2 = 0x031,
  kIadd64 = 0x035,  // Blackwell; before: HFMA2.MMA
  kViadd = 0x036,
  kUmov = 0x082,
  kUiadd3 = 0x090,
  kUlea = 0x091,
  kUshf = 0x099,
  kUimad = 0x0a4,
  kUimadWide = 0x0a5,
  kUlastArithmetic = 0x0bf,
  kUldc = 0x0b9,
  kUldcIndexed = 0x0bb,
  kR2urAmpere = 0x0ca,
  kS2r = 0x119,
  kCall = 0x143,
  kCallRelative = 0x144,
  kBra = 0x147,
  kBrx = 0x149,
  kJmp = 0x14a,
  kJmx = 0x14c,
  kExit = 0x14d,
  kRet = 0x150,
  kFirstMemory = 0x160,
  kLd = 0x180,
  kLdg = 0x181,
  kLdc = 0x182,
  kLdl = 0x183,
  kLds = 0x184,
  kSt = 0x185,
  kStg = 0x186,
  kStl = 0x187,
  kSts = 0x188,
  kShfl = 0x189,
  kAtom = 0x18a,
  kAtomCas = 0x18b,
  kRed = 0x18e,
  kAtomg = 0x1a8,
  kAtomgCas = 0x1a9,
  kLdcu = 0x1ac,
  kLdgsts = 0x1ae,
  kFirstToUniform = 0x1c0,
  kR2ur = 0x1c2,
  kS2ur = 0x1c3,
  kLastToUniform = 0x1c7,
};

// One instruction in Volta's 16-byte encoding and its successors'. Bits: operation 0–8, form 9–11, predicate 12–15,
// destination 16, a 24, b 32 and c 64, each a register of 8 bits. The form, 1 to 7, says where a constant (offset at
// 38, bank at 54), a number or a uniform register stands instead of b or c.
struct Instruction {
  uint64_t low = 0, high = 0;
  unsigned architecture = 0;  // 90 for sm_90: some codes have got another meaning
  unsigned operation() const { return low & 0x1ff; }
  unsigned form() const { return low >> 9 & 7; }
  bool always() const { return (low >> 12 & 15) == 7; }
  unsigned destination() const { return low >> 16 & 0xff; }
  unsigned a() const { return low >> 24 & 0xff; }
  unsigned b() const { return low >> 32 & 0xff; }
  unsigned c() const { return high & 0xff; }
  uint32_t number() const { return static_cast<uint32_t>(low >> 32); }

  bool loads_constant() const {
    const unsigned o = operation();
    return o == kLdc || o == kUldc || o == kUldcIndexed || o == kLdcu;
  }
  bool indexed() const { return operation() != kUldc && loads_constant() && a() != kZero; }  // by register a
  bool index_is_uniform() const { return operation() != kLdc; }
  bool uniform() const {
    const unsigned o = operation();
    return (o >= 0x080 && o <= kUlastArithmetic) || o == kR2urAmpere || o == kLdcu ||
           (o >= kFirstToUniform && o <= kLastToUniform);
  }
  // What they multiply or shift by is no address.
  bool takes_number() const {
    const unsigned o = operation();
    return o == kImad || o == kImadWide || o == kImadHi || o == kShf || o == kUimad || o == kUimadWide || o == kUshf;
  }
  bool has_constant(unsigned bank = 0) const { return (form() == 5 || form() == 3) && (low >> 54 & 31) == bank; }
  size_t constant() const {  // byte offset
    if (operation() == kLdcu) return low >> 37 & 0x1ffff;
    return loads_constant() ? low >> 38 & 0xffff : (low >> 40 & 0x3fff) * 4;
  }
  size_t loaded() const {  // bytes of registers
    const unsigned width = high >> 9 & 7;
    return width == 6 ? 16 : width == 5 ? 8 : 4;
  }
  unsigned loaded_from() const {  // bytes of memory
    const unsigned width = high >> 9 & 7;
    return width < 2 ? 1 : width < 4 ? 2 : static_cast<unsigned>(loaded());
  }
  bool adds_64() const { return operation() == kIadd64 && architecture >= 100; }
  bool multiplies_halves() const { return operation() == kHfma2 || (operation() == kIadd64 && architecture < 100); }
  // Of sums and products of 32 bits: with the sign of an operand changed, or a carry.
  bool negates() const { return (high >> 8 & 1) || (high >> 11 & 1) || (form() == 1 && low >> 63); }
  bool carries() const { return high >> 10 & 1; }
  bool gives_high_half() const { return high >> 16 & 1; }  // of LEA and SHF
  bool shifts_left() const { return !(high >> 12 & 1); }   // of SHF
  unsigned shift() const { return high >> 11 & 31; }       // of LEA's a
  // The dimension of the grid in which a special register counts the block; -1: another one.
  int block_dimension() const {
    const unsigned special = high >> 8 & 0xff;
    return special >= 0x25 && special <= 0x27 ? static_cast<int>(special - 0x25) : -1;
  }
  bool stores() const {  // to what it goes to
    switch (operation()) {
      case kSt:
      case kStg:
      case kAtom:
      case kAtomCas:
      case kAtomg:
      case kAtomgCas:
      case kRed:
        return true;
      default:
        return false;
    }
  }
  bool goes_to_memory() const {  // by the address in register a, and the next one
    const unsigned o = operation();
    return stores() || o == kLd || o == kLdg || o == kLdgsts;
  }
  // Turing has a uniform register in the place of the descriptor that came later: stores and atomics in c's place.
  unsigned uniform_base() const { return (operation() == kLd || operation() == kLdg ? b() : c()) & 0x3f; }
  // What comes out of memory in whole words may be an address.
  bool loads_address() const {
    const unsigned o = operation();
    return (o == kLd || o == kLdg || o == kLdl || o == kLds) && loaded() >= 8;
  }
  bool writes_nothing() const {
    switch (operation()) {
      case kIsetp:
      case kFsetp:
      case kSt:
      case kStg:
      case kStl:
      case kSts:
      case kRed:
      case kLdgsts:
        return true;
      default:
        return false;
    }
  }
  // Registers that are written at most.
  unsigned writes() const {
    const unsigned o = operation();
    if (loads_constant() || o == kLd || o == kLdg || o == kLdl || o == kLds) return static_cast<unsigned>(loaded() / 4);
    if (o == kAtom || o == kAtomCas || o == kAtomg || o == kAtomgCas) return 2;
    if (o >= kFirstMemory && o != kShfl && !uniform()) return 4;
    if ((o >= 0x037 && o <= 0x03f) || o == 0x07f) return 4;  // tensor cores
    if (o == kImadWide || o == kUimadWide || adds_64() || (o >= 0x028 && o <= 0x02b) || o == 0x005) return 2;
    return 1;
  }
  bool leaves() const {
    switch (operation()) {
      case kCall:
      case kCallRelative:
      case kBra:
      case kBrx:
      case kJmp:
      case kJmx:
      case kExit:
      case kRet:
        return true;
      default:
        return false;
    }
  }
};

}  // namespace devtrace::device
