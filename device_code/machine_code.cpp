// What machine code does with a kernel's parameters, by following them through registers in the order of the code. That
// is the way a thread takes where the code does not jump; where it always jumps, nothing is known of what comes next.
#include <cstring>

#include "device_code/formats.h"

namespace devtrace::device_code {
namespace {

constexpr size_t kMostRanges = 2 * kMostParameterBytes / 8;
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
  kIadd64 = 0x035,
  kViadd = 0x036,
  kUmov = 0x082,
  kUiadd3 = 0x090,
  kUlea = 0x091,
  kUlastArithmetic = 0x0bf,
  kUldc = 0x0b9,
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
  kLastToUniform = 0x1c7,
};

// One instruction in Volta's 16-byte encoding and its successors'. Bits: operation 0–8, form 9–11, predicate 12–15,
// destination 16, a 24, b 32 and c 64, each a register of 8 bits; of form 1 to 7 says where a constant stands instead
// of b or c (offset at 38, bank at 54), a number, or a uniform register.
struct Instruction {
  uint64_t low, high;
  unsigned operation() const { return low & 0x1ff; }
  unsigned form() const { return low >> 9 & 7; }
  bool always() const { return (low >> 12 & 15) == 7; }
  unsigned destination() const { return low >> 16 & 0xff; }
  unsigned a() const { return low >> 24 & 0xff; }
  unsigned b() const { return low >> 32 & 0xff; }
  unsigned c() const { return high & 0xff; }
  uint32_t number() const { return static_cast<uint32_t>(low >> 32); }

  bool loads_constant() const { return operation() == kLdc || operation() == kUldc || operation() == kLdcu; }
  bool indexed() const { return operation() != kUldc && loads_constant() && a() != kZero; }
  bool uniform() const {
    const unsigned o = operation();
    return (o >= 0x080 && o <= kUlastArithmetic) || o == kLdcu || (o >= kFirstToUniform && o <= kLastToUniform);
  }
  // What they multiply or shift by is no address.
  bool takes_number() const {
    const unsigned o = operation();
    return o == kImad || o == kImadWide || o == kImadHi || o == kShf;
  }
  bool has_constant() const { return (form() == 5 || form() == 3) && (low >> 54 & 31) == 0; }
  size_t constant() const {  // byte offset
    return operation() == kLdcu ? low >> 37 & 0x1ffff : (low >> 40 & 0x3fff) * 4;
  }
  size_t loaded() const {  // bytes
    const unsigned width = high >> 9 & 7;
    return width == 6 ? 16 : width == 5 ? 8 : 4;
  }
  size_t constant_bytes() const { return loads_constant() ? loaded() : 4; }
  bool goes_to_memory() const {  // by the address in register a, and the next one
    switch (operation()) {
      case kLd:
      case kLdg:
      case kSt:
      case kStg:
      case kAtom:
      case kAtomCas:
      case kAtomg:
      case kAtomgCas:
      case kRed:
      case kLdgsts:
        return true;
      default:
        return false;
    }
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
    if (o == kImadWide || o == kIadd64 || (o >= 0x028 && o <= 0x02b) || o == 0x005) return 2;
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

// Which parameter bytes lie in a register.
class Origins {
 public:
  static constexpr size_t kUnknown = SIZE_MAX;
  static constexpr size_t kEither = SIZE_MAX - 1;      // an address or a number, from memory or two parameters
  static constexpr size_t kIndexed = size_t{1} << 62;  // some word from there on
  Origins() { forget(); }
  void forget() {
    for (size_t& r : uniform_) r = kUnknown;
    for (size_t& r : common_) r = kUnknown;
  }
  size_t get(bool uniform, unsigned r) const { return uniform ? uniform_[r & 63] : r == kZero ? kUnknown : common_[r]; }
  void set(bool uniform, unsigned r, size_t origin) {
    if (uniform)
      uniform_[r & 63] = origin;
    else if (r < kZero)
      common_[r] = origin;
  }

 private:
  size_t uniform_[64], common_[256];
};

struct Reader {
  Bytes bank;
  unsigned architecture;
  KernelFacts* facts;
  std::vector<Bytes> numbers;
  Origins origins;

  size_t parameter(const Instruction& i) const {
    const size_t offset = i.constant();
    return i.has_constant() && offset >= bank.begin && offset < bank.end ? offset - bank.begin : Origins::kUnknown;
  }
  size_t operand_b(const Instruction& i) const {
    switch (i.form()) {
      case 1:
        return origins.get(i.uniform(), i.b());
      case 5:
        return parameter(i);
      case 6:
        return origins.get(true, i.b());
      case 2:
      case 3:
      case 7:
        return origins.get(i.uniform(), i.c());
      default:
        return Origins::kUnknown;
    }
  }
  size_t operand_c(const Instruction& i) const {
    switch (i.form()) {
      case 3:
        return parameter(i);
      case 7:
        return origins.get(true, i.b());
      case 2:
        return Origins::kUnknown;
      default:
        return origins.get(i.uniform(), i.c());
    }
  }
  // Of two words added one is an address and the other a number, but which?
  static size_t sum(size_t one, size_t other) {
    return one == Origins::kUnknown ? other : other == Origins::kUnknown ? one : Origins::kEither;
  }

  // The word that the result is an address into, if one of the operands is.
  size_t result(const Instruction& i) const {
    const size_t a = origins.get(i.uniform(), i.a());
    switch (i.operation()) {
      case kMov:
      case kUmov:
        return operand_b(i);
      case kR2ur:
        return origins.get(false, i.a());
      case kIadd3:
      case kUiadd3:
        return sum(sum(a, operand_b(i)), operand_c(i));
      case kIadd64:
      case kViadd:
        return sum(a, operand_b(i));
      case kLea:
      case kUlea:
        return operand_b(i);  // a is shifted
      case kImad:
        return i.form() == 4 && i.number() == 1 ? sum(a, operand_c(i)) : operand_c(i);
      case kImadWide:
        return operand_c(i);
      default:
        return Origins::kUnknown;
    }
  }

  void number(size_t offset) {
    if (offset >= Origins::kEither) return;
    offset &= ~(Origins::kIndexed | 7);
    numbers.push_back({offset, offset + 8});
  }
  // An address stands in whole words, at their beginning.
  void follow(size_t offset) {
    if (offset < Origins::kIndexed && offset % 8 == 0) facts->follows.push_back({offset, offset + 8});
  }

  void read(const Instruction& i) {
    const size_t offset = parameter(i);
    const bool known = offset != Origins::kUnknown;
    if (i.takes_number()) {
      if (i.form() == 6) number(origins.get(true, i.b()));
      if (i.form() == 1) number(origins.get(false, i.b()));
      if (known && i.form() == 5) number(offset);
    }
    if (i.goes_to_memory()) {
      const bool with_uniform = architecture < 80 && i.form() == 4;
      follow(sum(origins.get(false, i.a()), with_uniform ? origins.get(true, i.uniform_base()) : Origins::kUnknown));
    }
    const size_t origin = result(i);
    if (!i.writes_nothing()) {
      const size_t rest = i.loads_address() ? Origins::kEither : Origins::kUnknown;
      for (unsigned each = 0; each < i.writes(); ++each) origins.set(i.uniform(), i.destination() + each, rest);
      if (origin != Origins::kUnknown) origins.set(i.uniform(), i.destination(), origin);
      if (i.writes() == 2 && origin < Origins::kEither) origins.set(i.uniform(), i.destination() + 1, origin + 4);
    }
    if (i.leaves() && i.always()) origins.forget();
    if (!known) return;
    // An address is loaded as a whole; half a word is a number, or a table's beginning that an index is added to.
    if (!i.loads_constant() || i.constant_bytes() >= 8) facts->reads.push_back({offset, offset + i.constant_bytes()});
    if (!i.loads_constant()) return;
    for (size_t each = 0; each < i.constant_bytes(); each += 4)
      origins.set(i.uniform(), i.destination() + static_cast<unsigned>(each / 4),
                  (offset + each) | (i.indexed() ? Origins::kIndexed : 0));
  }
};

}  // namespace

// A size that is multiplied by, or a shift, is left out of what may be an address: PyTorch leaves such fields of its
// structs unset when a tensor has fewer dimensions, and what happens to be there looks like a pointer often enough. No
// such field is read before the count of dimensions was.
void read_machine_code(View code, unsigned architecture, Bytes bank, KernelFacts* out) {
  Reader reader{bank, architecture, out, {}, {}};
  for (size_t at = 0; at + 16 <= code.size; at += 16) {
    Instruction i;
    std::memcpy(&i.low, code.data + at, 8);
    std::memcpy(&i.high, code.data + at + 8, 8);
    reader.read(i);
    // Long code reads the same words again and again.
    for (std::vector<Bytes>* ranges : {&out->reads, &out->follows, &reader.numbers})
      if (ranges->size() > kMostRanges) tidy(ranges);
  }
  tidy(&out->reads);
  tidy(&out->follows);
  tidy(&reader.numbers);
  subtract(&out->reads, reader.numbers);
  subtract(&out->follows, reader.numbers);
}

}  // namespace devtrace::device_code
