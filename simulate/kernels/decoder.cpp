#include "simulate/kernels/decoder.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "binary/ptx/numbers.h"
#include "simulate/kernels/instructions/loops.h"

namespace devtrace::simulate::kernels {
namespace {

size_t aligned(size_t at, size_t alignment) {
  return alignment > 1 ? (at + alignment - 1) / alignment * alignment : at;
}

template <class D, class S>
void widen(Machine& m, const Step& s) {
  map1<D, S>(m, s, [](S a) { return static_cast<D>(a); });
}
struct U128 {
  uint64_t low, high;
};
template <>
void widen<U128, uint64_t>(Machine& m, const Step& s) {
  map1<U128, uint64_t>(m, s, [](uint64_t a) { return U128{a, 0}; });
}

template <class S>
Handler widen_to(size_t bytes) {
  return by_bits(bytes, [](auto d) -> Handler { return &widen<decltype(d), S>; });
}

void refusing(Machine& m, const Step& s) {
  m.fault.size = s.extra;
  m.fail(FaultKind::not_computed, m.lanes->begin()->begin);
}

void negate(Machine& m, const Step& s) {
  map1<uint8_t, uint8_t>(m, s, [](uint8_t a) { return static_cast<uint8_t>(a ^ 1); });
}

void own_address(Machine& m, const Step& s) {
  map1<uint64_t, uint64_t>(m, s, [n = s.immediate](uint64_t a) { return a + static_cast<uint64_t>(n); });
}

}  // namespace

Decoder::Decoder(Program* program, uint32_t function)
    : program_(*program), function_(program->module.functions[function]), code_(program->codes[function]) {}

const Operand& Decoder::operand(size_t i) const {
  static const Operand kNone;
  return i < instruction_->operands.size() ? instruction_->operands[i] : kNone;
}

Space Decoder::space() const {
  for (const std::string_view modifier : instruction_->modifiers)
    if (const Space found = ptx::find_space(modifier); found != Space::none) return found;
  return Space::none;
}

// Registers one behind the other; what is in memory of the block's or of each lane.
void Decoder::lay_out() {
  code_.function = &function_;
  for (const ptx::Register& r : function_.registers) {
    const size_t bytes = ptx::bytes_of(r.type);
    code_.register_units = static_cast<uint32_t>(aligned(code_.register_units, std::min<size_t>(bytes, 16)));
    registers_.push_back(code_.register_units);
    code_.register_units += static_cast<uint32_t>(bytes * r.vector);
  }
  size_t shared = 0, local = 0;
  const auto put = [](size_t* at, const ptx::Variable& v) {
    *at = aligned(*at, v.alignment);
    const size_t begin = *at;
    *at += v.bytes;
    return static_cast<uint32_t>(begin);
  };
  const auto put_shared = [&](const ptx::Variable& v) -> uint32_t {
    if (v.space != Space::shared || v.external) return 0;
    const uint32_t begin = put(&shared, v);
    if (function_.entry) code_.shared_variables.push_back({v.name, begin, static_cast<uint32_t>(v.bytes)});
    return begin;
  };
  // What functions use lies first, and in the same places whoever calls them; behind it what an entry alone uses. A
  // module of nvcc -rdc=true has the variables of all its kernels, and each has room for its own.
  const bool calls = !function_.entry ||
                     std::ranges::any_of(function_.body, [](const ptx::Instruction& i) { return i.opcode == "call"; });
  const std::vector<ptx::Variable>& of_module = program_.module.variables;
  std::vector<bool> own(of_module.size());
  if (function_.entry) find_globals(function_, &own);
  module_shared_.resize(of_module.size());
  for (size_t i = 0; i < of_module.size(); ++i)
    if (calls && program_.used_by_functions[i]) module_shared_[i] = put_shared(of_module[i]);
  for (const ptx::Function& f : program_.module.functions) {
    if (f.entry || (!calls && &f != &function_)) continue;
    for (const ptx::Variable& v : f.variables) {
      const uint32_t at = put_shared(v);
      if (&f == &function_) local_.push_back(at);
    }
  }
  for (size_t i = 0; i < of_module.size(); ++i)
    if (own[i] && !(calls && program_.used_by_functions[i])) module_shared_[i] = put_shared(of_module[i]);
  if (function_.entry)
    for (const ptx::Variable& v : function_.variables) local_.push_back(put_shared(v));
  for (size_t i = 0; i < function_.variables.size(); ++i) {
    const ptx::Variable& v = function_.variables[i];
    if (v.space == Space::local || v.space == Space::param) local_[i] = put(&local, v);
  }
  if (function_.entry) {
    size_t at = 0;
    for (const ptx::Variable& v : function_.parameters) code_.offsets.push_back(put(&at, v));
  } else {
    size_t index = 0;
    const auto place = [&](const ptx::Variable& v, std::vector<Place>* into) {
      parameters_.push_back(static_cast<uint32_t>(into->size()));
      Place p;
      p.in_local = v.space != Space::reg;
      p.bytes = static_cast<uint32_t>(p.in_local ? v.bytes : ptx::bytes_of(v.type));
      if (p.in_local) p.offset = put(&local, v);
      // The parser has put those in registers first, in this order.
      if (!p.in_local) p.slot = registers_[index++];
      for (size_t done = 0; done < v.bytes; done += p.bytes) {
        into->push_back(p);
        p.slot += p.bytes;
      }
    };
    for (const ptx::Variable& v : function_.parameters) place(v, &code_.parameters);
    for (const ptx::Variable& v : function_.results) place(v, &code_.results);
  }
  const auto dynamic = std::ranges::find_if(
      program_.module.variables, [](const ptx::Variable& v) { return v.space == Space::shared && v.external; });
  code_.static_shared = static_cast<uint32_t>(std::min<size_t>(shared, UINT32_MAX));
  size_t alignment = 16;
  for (const ptx::Variable& v : program_.module.variables)
    if (v.space == Space::shared && v.external) alignment = std::max(alignment, v.alignment);
  code_.shared_bytes = static_cast<uint32_t>(std::min<size_t>(aligned(shared, alignment), UINT32_MAX));
  if (function_.entry && dynamic != program_.module.variables.end())
    code_.shared_variables.push_back({dynamic->name, code_.shared_bytes, UINT32_MAX - code_.shared_bytes});
  code_.local_bytes = static_cast<uint32_t>(std::min<size_t>(aligned(local, 16), UINT32_MAX));
  if (code_.local_bytes) code_.local_base = temporary(8);
}

Slot Decoder::temporary(size_t bytes) {
  const auto slot = static_cast<uint32_t>(aligned(code_.register_units, std::min<size_t>(bytes, 16)));
  code_.register_units = slot + static_cast<uint32_t>(bytes);
  return slot;
}

Slot Decoder::carry() {
  if (carry_ == kNoSlot) carry_ = temporary(1);
  return carry_;
}

// Each once a function.
Slot Decoder::filled(Constant::Kind kind, uint64_t value, uint32_t index, size_t bytes) {
  const auto [known, added] = constants_.try_emplace({static_cast<int>(kind), value, index, bytes});
  if (!added) return known->second;
  Constant c;
  c.kind = kind;
  c.bytes = static_cast<uint8_t>(bytes);
  c.value = value;
  c.index = index;
  code_.constant_units = static_cast<uint32_t>(aligned(code_.constant_units, bytes));
  c.slot = kConstant | code_.constant_units;
  code_.constant_units += static_cast<uint32_t>(bytes);
  code_.constants.push_back(c);
  return known->second = c.slot;
}

Slot Decoder::constant(uint64_t value, size_t bytes) {
  if (bytes < 8) value &= (uint64_t{1} << (8 * bytes)) - 1;
  return filled(Constant::Kind::value, value, 0, bytes);
}

const Place& Decoder::own_place(const Operand& o) const {
  const size_t count = function_.parameters.size();
  return o.index < count ? code_.parameters[parameters_[o.index]] : code_.results[parameters_[o.index]];
}

Slot Decoder::local_address(uint32_t offset) {
  if (!offset) return code_.local_base;
  const Slot slot = temporary(8);
  emit(own_address, slot, code_.local_base).immediate = offset;
  return slot;
}

bool Decoder::find_variable(const Operand& o, const ptx::Variable** variable) const {
  if (o.kind == Operand::Kind::variable) return *variable = &function_.variables[o.index], true;
  if (o.kind == Operand::Kind::global) return *variable = &program_.module.variables[o.index], true;
  if (o.kind != Operand::Kind::parameter) return false;
  const size_t count = function_.parameters.size();
  *variable = o.index < count ? &function_.parameters[o.index] : &function_.results[o.index - count];
  return true;
}

// The operand's value as wide as it is.
Slot Decoder::raw(const Operand& o, Type type, size_t* bytes, bool* sign) {
  const size_t wanted = std::min<size_t>(ptx::bytes_of(type), 8);
  const char kind = ptx::facts(type).kind;
  *sign = kind == 's';
  *bytes = wanted;
  switch (o.kind) {
    case Operand::Kind::reg: {
      const ptx::Register& r = function_.registers[o.index];
      *bytes = ptx::bytes_of(r.type);
      const size_t part = o.component > 0 && o.component < r.vector ? static_cast<size_t>(o.component) : 0;
      return registers_[o.index] + static_cast<Slot>(part * *bytes);
    }
    case Operand::Kind::integer:
      return constant(ptx::bits_as({ptx::Number::Kind::integer, o.value}, kind, wanted), wanted);
    case Operand::Kind::real: {
      const uint64_t bits = ptx::bits_as({ptx::Number::Kind::real, o.value}, kind, wanted);
      const double value = std::bit_cast<double>(o.value);
      if (type == Type::bf16) return constant(std::bit_cast<uint32_t>(static_cast<float>(value)) >> 16, wanted);
      return constant(bits, wanted);
    }
    case Operand::Kind::real32:
      return constant(ptx::bits_as({ptx::Number::Kind::real32, o.value}, kind, wanted), wanted);
    case Operand::Kind::special:
      return special(o.name, bytes);
    case Operand::Kind::variable: {
      const ptx::Variable& v = function_.variables[o.index];
      *bytes = 8;
      if (v.space == Space::shared) {
        if (v.external) return filled(Constant::Kind::dynamic_shared, o.value, 0, 8);
        return constant(local_[o.index] + o.value, 8);
      }
      if (v.space == Space::local || v.space == Space::param)
        return local_address(local_[o.index] + static_cast<uint32_t>(o.value));
      refuse("a variable of a function");
      return constant(0, 8);
    }
    case Operand::Kind::global: {
      const ptx::Variable& v = program_.module.variables[o.index];
      *bytes = 8;
      if (v.space == Space::shared) {
        if (v.external) return filled(Constant::Kind::dynamic_shared, o.value, 0, 8);
        return constant(module_shared_[o.index] + o.value, 8);
      }
      return filled(Constant::Kind::global, o.value, o.index, 8);
    }
    case Operand::Kind::parameter: {
      *bytes = 8;
      if (function_.entry) return filled(Constant::Kind::parameters, code_.offsets[o.index] + o.value, 0, 8);
      return local_address(own_place(o).offset + static_cast<uint32_t>(o.value));
    }
    case Operand::Kind::name: {
      *bytes = 8;
      const auto found = program_.functions.find(o.name);
      if (found == program_.functions.end()) {
        refuse("unknown name " + std::string(o.name));
        return constant(0, 8);
      }
      return constant(kFunctionAddress + 16 * uint64_t{found->second}, 8);
    }
    default:
      refuse("an operand of " + std::string(instruction_->opcode));
      return constant(0, wanted);
  }
}

Slot Decoder::predicate(const Operand& o) {
  size_t bytes = 1;
  bool sign = false;
  Slot slot = o.kind == Operand::Kind::reg ? raw(o, Type::pred, &bytes, &sign) : constant(o.value ? 1 : 0, 1);
  if (bytes != 1) refuse("a predicate of another type");
  if (!o.negated) return slot;
  const Slot other = temporary(1);
  emit(negate, other, slot);
  return other;
}

void Decoder::convert(Slot d, size_t to, Slot s, size_t from, bool sign) {
  Handler run = nullptr;
  if (to == 16 && from == 8) run = &widen<U128, uint64_t>;
  switch (from) {
    case 1:
      run = sign ? widen_to<int8_t>(to) : widen_to<uint8_t>(to);
      break;
    case 2:
      run = sign ? widen_to<int16_t>(to) : widen_to<uint16_t>(to);
      break;
    case 4:
      run = sign ? widen_to<int32_t>(to) : widen_to<uint32_t>(to);
      break;
    case 8:
      if (!run) run = widen_to<uint64_t>(to);
      break;
    default:
      break;
  }
  if (!run) return refuse("an operand of another size");
  emit(run, d, s);
}

Slot Decoder::source(const Operand& o, Type type) {
  if (type == Type::pred) return predicate(o);
  if (o.negated || !o.selector.empty()) refuse("a part of an operand");
  size_t bytes = 0;
  bool sign = false;
  Slot slot = raw(o, type, &bytes, &sign);
  const size_t wanted = ptx::bytes_of(type);
  if (o.kind == Operand::Kind::reg && o.value) {  // %r + 1
    const Slot sum = temporary(bytes);
    if (bytes == 8)
      emit(own_address, sum, slot).immediate = static_cast<int64_t>(o.value);
    else
      refuse("a sum as an operand");
    slot = sum;
  }
  if (bytes == wanted || o.kind == Operand::Kind::sink) return slot;
  const Slot other = temporary(wanted);
  convert(other, wanted, slot, bytes, sign);
  return other;
}

Slot Decoder::destination(const Operand& o, Type type) {
  const size_t wanted = ptx::bytes_of(type);
  if (o.kind == Operand::Kind::sink) return temporary(wanted);
  if (o.kind != Operand::Kind::reg) {
    refuse("a result that is no register");
    return temporary(wanted);
  }
  size_t bytes = 0;
  bool sign = false;
  const Slot slot = raw(o, type, &bytes, &sign);
  if (bytes == wanted) return slot;
  const Slot other = temporary(wanted);
  pending_.push_back({slot, other, bytes, wanted, sign});
  return other;
}

std::vector<Operand> Decoder::parts(const Operand& o) const {
  if (o.kind == Operand::Kind::vector) return o.parts;
  if (o.kind != Operand::Kind::reg || o.component >= 0) return {o};
  std::vector<Operand> all(function_.registers[o.index].vector, o);
  for (size_t i = 0; i < all.size(); ++i) all[i].component = static_cast<int8_t>(i);
  return all;
}

Decoder::Address Decoder::address(const Operand& o, Space space) {
  Address found;
  if (o.kind != Operand::Kind::address || o.parts.empty()) {
    refuse("an address of " + std::string(instruction_->opcode));
    found.slot = constant(0, 8);
    return found;
  }
  const Operand& base = o.parts[0];
  found.added = static_cast<int64_t>(o.value);
  if (base.kind == Operand::Kind::reg) {
    size_t bytes = 0;
    bool sign = false;
    found.slot = raw(base, Type::b64, &bytes, &sign);
    found.wide = static_cast<uint32_t>(bytes);
    if (bytes != 4 && bytes != 8) refuse("an address of another type");
  } else {
    const ptx::Variable* variable = nullptr;
    // "[name]" of an entry's parameter.
    if (base.kind == Operand::Kind::parameter && function_.entry) {
      found.parameters = true;
      found.added += code_.offsets[base.index];
      return found;
    }
    if (find_variable(base, &variable) && space == Space::none) space = variable->space;
    found.slot = source(base, Type::b64);
  }
  found.shared = space == Space::shared;
  if (found.wide == 4 && !found.shared) {
    const Slot wide = temporary(8);
    convert(wide, 8, found.slot, 4, false);
    found.slot = wide;
    found.wide = 8;
  }
  return found;
}

Step& Decoder::emit(Handler run, Slot d, Slot a, Slot b, Slot c) {
  Step step;
  step.run = run;
  step.d = d;
  step.a = a;
  step.b = b;
  step.c = c;
  step.source = static_cast<uint32_t>(instruction_ - function_.body.data());
  if (instruction_->guard >= 0) {
    step.guard = registers_[static_cast<size_t>(instruction_->guard)];
    step.guard_negated = instruction_->guard_negated;
  }
  return code_.steps.emplace_back(step);
}

uint32_t Decoder::more(const std::vector<Slot>& slots) {
  const auto at = static_cast<uint32_t>(code_.more.size());
  code_.more.insert(code_.more.end(), slots.begin(), slots.end());
  return at;
}

void Decoder::refuse(std::string why) {
  emit(refusing).extra = static_cast<uint32_t>(code_.refusals.size());
  code_.refusals.push_back(std::move(why));
}

void Decoder::one(const ptx::Instruction& i) {
  instruction_ = &i;
  types_.clear();
  for (const std::string_view modifier : i.modifiers)
    if (const ptx::TypeFacts* type = ptx::find_type(modifier)) types_.push_back(type->type);
  const size_t before = code_.steps.size();
  pending_.clear();
  const auto [first, last] = families_of(i.opcode);
  const bool done = std::any_of(first, last, [&](const Family& family) {
    // A variant that has no handler is none that is known.
    const auto is_step = [](const Step& step) { return step.run || step.flow != Flow::next; };
    if (i.operands.size() >= family.least && family.decode(*this) &&
        std::all_of(code_.steps.begin() + static_cast<ptrdiff_t>(before), code_.steps.end(), is_step))
      return true;
    code_.steps.resize(before);
    pending_.clear();
    return false;
  });
  if (!done) {
    std::string name(i.opcode);
    for (const std::string_view modifier : i.modifiers) name += modifier;
    return refuse(name);
  }
  for (const Pending& p : pending_) convert(p.to, p.to_bytes, p.from, p.from_bytes, p.sign);
}

void Decoder::find_values() {
  constexpr uint32_t kNobody = UINT32_MAX, kSeveral = UINT32_MAX - 1;
  std::vector<uint32_t> by(function_.registers.size(), kNobody);
  const auto write = [&](uint32_t reg, uint32_t instruction) {
    if (reg < by.size()) by[reg] = by[reg] == kNobody ? instruction : kSeveral;
  };
  // Parameters in registers are the first ones, and the caller writes them.
  uint32_t next = 0;
  for (const auto* list : {&function_.parameters, &function_.results})
    for (const ptx::Variable& v : *list)
      if (v.space == Space::reg && next < by.size()) by[next++] = kSeveral;
  std::vector<bool> entered(function_.body.size() + 1);
  for (const std::vector<uint32_t>& table : function_.tables)
    for (const uint32_t target : table) entered[std::min<size_t>(target, function_.body.size())] = true;
  for (uint32_t i = 0; i < function_.body.size(); ++i) {
    const std::vector<Operand>& operands = function_.body[i].operands;
    if (operands.empty()) continue;
    if (operands[0].kind == Operand::Kind::reg) write(operands[0].index, i);
    for (const Operand& part : operands[0].parts)
      if (part.kind == Operand::Kind::reg) write(part.index, i);
    for (const Operand& o : operands)
      if (o.kind == Operand::Kind::label) entered[std::min<size_t>(o.index, function_.body.size())] = true;
  }
  uint32_t stretch = 0;
  for (uint32_t i = 0; i < function_.body.size(); ++i) {
    const std::string_view op = function_.body[i].opcode;
    if (entered[i]) ++stretch;
    stretch_.push_back(stretch);
    if (op == "bra" || op == "brx" || op == "call" || op == "ret" || op == "exit") ++stretch;
  }
  for (uint32_t& one : by)
    if (one == kSeveral) one = kNobody;
  written_by_ = std::move(by);
}

const ptx::Instruction* Decoder::product(size_t i) const {
  const auto rounds = [](const ptx::Instruction& one) {
    return one.has(".rn") || one.has(".rz") || one.has(".rm") || one.has(".rp");
  };
  const auto writer = [&](const Operand& o) {
    const bool whole = o.kind == Operand::Kind::reg && o.component < 0 && !o.negated && !o.value;
    return whole ? written_by_[o.index] : UINT32_MAX;
  };
  const auto is_value = [&](const Operand& o) {
    return o.kind == Operand::Kind::real || o.kind == Operand::Kind::real32 || writer(o) != UINT32_MAX;
  };
  const uint32_t at = writer(operand(i));
  if (at == UINT32_MAX || rounds(*instruction_)) return nullptr;
  const ptx::Instruction& one = function_.body[at];
  const auto here = static_cast<size_t>(instruction_ - function_.body.data());
  if (one.opcode != "mul" || at > here || stretch_[at] != stretch_[here] || one.guard >= 0 || rounds(one))
    return nullptr;
  if (one.operands.size() != 3 || one.has(".sat") || one.has(".ftz") != has(".ftz")) return nullptr;
  const ptx::TypeFacts* const last = one.modifiers.empty() ? nullptr : ptx::find_type(one.modifiers.back());
  if (!last || last->type != type() || !is_value(one.operands[1]) || !is_value(one.operands[2])) return nullptr;
  return &one;
}

void Decoder::decode() {
  static const ptx::Instruction kNone;
  lay_out();
  find_values();
  std::vector<uint32_t> first;  // step of each instruction
  for (const ptx::Instruction& i : function_.body) {
    first.push_back(static_cast<uint32_t>(code_.steps.size()));
    one(i);
  }
  // A body that ends without one returns.
  first.push_back(static_cast<uint32_t>(code_.steps.size()));
  Step end;
  end.flow = Flow::ret;
  code_.steps.push_back(end);
  for (Step& step : code_.steps)
    if (step.flow == Flow::branch) step.extra = first[std::min<size_t>(step.extra, first.size() - 1)];
  code_.tables = function_.tables;
  for (std::vector<uint32_t>& table : code_.tables)
    for (uint32_t& target : table) target = first[std::min<size_t>(target, first.size() - 1)];
}

}  // namespace devtrace::simulate::kernels
