// From PTX's instructions to steps, a function at a time.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "binary/ptx/module.h"
#include "simulate/kernels/code.h"
#include "simulate/kernels/machine.h"

namespace devtrace::simulate::kernels {

using ptx::Operand;
using ptx::Space;
using ptx::Type;

class Decoder {
 public:
  Decoder(Program* program, uint32_t function);
  void decode();

  // For the families of instructions: the one at hand.
  const ptx::Instruction& instruction() const { return *instruction_; }
  const Operand& operand(size_t i) const;
  size_t operand_count() const { return instruction_->operands.size(); }
  bool has(std::string_view modifier) const { return instruction_->has(modifier); }
  // The types among the modifiers, in their order.
  const std::vector<Type>& types() const { return types_; }
  Type type() const { return types_.empty() ? Type::none : types_.back(); }
  Space space() const;
  // The product that the operand is, where the driver's compiler would make one instruction of it and this sum; null:
  // none.
  const ptx::Instruction* product(size_t i) const;

  // A slot with the operand's value, as wide as the type.
  Slot source(const Operand& operand, Type type);
  Slot source(size_t i) { return source(operand(i), type()); }
  Slot source(size_t i, Type type) { return source(operand(i), type); }
  // A slot that the operand gets its value from.
  Slot destination(const Operand& operand, Type type);
  Slot destination(size_t i) { return destination(operand(i), type()); }
  Slot destination(size_t i, Type type) { return destination(operand(i), type); }
  Slot predicate(const Operand& operand);  // as 0 and 1, negated where the operand is
  Slot temporary(size_t bytes);
  Slot constant(uint64_t value, size_t bytes);
  // A vector's elements; of anything else itself.
  std::vector<Operand> parts(const Operand& operand) const;
  // Of [base + n] in a space: where the address is, and what is added to it.
  struct Address {
    Slot slot = kNoSlot;
    int64_t added = 0;
    bool shared = false, parameters = false;
    uint32_t wide = 8;  // bytes of the address
  };
  Address address(const Operand& operand, Space space);
  Step& emit(Handler run, Slot d = kNoSlot, Slot a = kNoSlot, Slot b = kNoSlot, Slot c = kNoSlot);
  // Before the steps that use it: copies of vectors' parts and the like.
  uint32_t more(const std::vector<Slot>& slots);
  Code& code() { return code_; }
  Slot carry();  // the condition code of addc and its kin
  uint32_t cache() { return code_.caches++; }
  // Nobody can do it: the launch ends there.
  void refuse(std::string why);
  // Steps that follow what is emitted by then.
  void convert(Slot d, size_t d_bytes, Slot s, size_t s_bytes, bool sign);

  // calls.cpp
  // Waits until all lanes of the mask in that operand are here: its slot.
  Slot wait_for_warp(size_t operand_index);
  bool call();
  Place place_of(const Operand& operand, const ptx::Variable* formal);
  bool find_variable(const Operand& operand, const ptx::Variable** variable) const;
  uint32_t local_offset(uint32_t variable) const { return local_[variable]; }

 private:
  void lay_out();
  void find_values();
  Slot special(std::string_view name, size_t* bytes);
  Slot filled(Constant::Kind kind, uint64_t value, uint32_t index, size_t bytes);
  Slot raw(const Operand& operand, Type type, size_t* bytes, bool* sign);
  void one(const ptx::Instruction& i);
  Slot local_address(uint32_t offset);
  const Place& own_place(const Operand& operand) const;  // of a parameter or result of the function's own

  Program& program_;
  const ptx::Function& function_;
  Code& code_;
  const ptx::Instruction* instruction_ = nullptr;
  Slot carry_ = kNoSlot;
  std::vector<Type> types_;
  std::vector<Slot> registers_;
  std::vector<uint32_t> local_;  // by variable: where it is in each lane's own memory, or in shared memory
  std::vector<uint32_t> module_shared_;
  std::vector<uint32_t> parameters_;  // by parameter, then by result: which place is its first
  // Of a register that one instruction alone writes: which; else UINT32_MAX.
  std::vector<uint32_t> written_by_;
  std::vector<uint32_t> stretch_;  // by instruction: one behind the other, with no way in or out between
  struct Pending {
    Slot to, from;
    size_t to_bytes, from_bytes;
    bool sign;
  };
  std::vector<Pending> pending_;
  std::map<std::tuple<int, uint64_t, uint32_t, size_t>, Slot> constants_;
};

struct Family {
  std::string_view opcode;
  bool (*decode)(Decoder&);
  size_t least;  // operands
};
// Those that know the opcode.
std::pair<const Family*, const Family*> families_of(std::string_view opcode);

// The families: false: it is none of theirs, or a variant that nobody does.
bool decode_integer(Decoder& d);
bool decode_bits(Decoder& d);
bool decode_bulk(Decoder& d);
bool decode_cluster(Decoder& d);
bool decode_real(Decoder& d);
bool decode_half(Decoder& d);
bool decode_convert(Decoder& d);
bool decode_compare(Decoder& d);
bool decode_memory(Decoder& d);
bool decode_atomic(Decoder& d);
bool decode_video(Decoder& d);
bool decode_warp(Decoder& d);
bool decode_flow(Decoder& d);
bool decode_matrix(Decoder& d);
bool decode_wmma(Decoder& d);
bool decode_wgmma(Decoder& d);
bool decode_tensormap(Decoder& d);
bool decode_texture(Decoder& d);
bool decode_mbarrier(Decoder& d);

}  // namespace devtrace::simulate::kernels
