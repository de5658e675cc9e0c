#include "tracker/python/objects/bytecode.h"

#include <algorithm>
#include <climits>
#include <string_view>
#include <utility>

#include "tracker/python/gil/elements.h"

namespace devtrace::python {
namespace {

constexpr std::string_view kEnds[] = {"RETURN_VALUE",  "RETURN_CONST",  "RAISE_VARARGS", "RERAISE",
                                      "JUMP_ABSOLUTE", "JUMP_BACKWARD", "JUMP_FORWARD",  "JUMP_BACKWARD_NO_INTERRUPT"};

std::string bytes(const Api& api, PyObject* object) {
  char* data = nullptr;
  ssize_t size = 0;
  if (!object || api.PyBytes_AsStringAndSize(object, &data, &size) != 0) {
    api.PyErr_Clear();
    return {};
  }
  return std::string(data, static_cast<size_t>(size));
}

template <class Take>
void for_each_opcode(const Api& api, PyObject* module, const char* list, const Take& take) {
  const Ref opcodes = attribute(api, module, list);
  if (!opcodes) return;
  for (Elements each(api, opcodes.get()); each.next();)
    if (const long long opcode = integer(api, each.value(), -1); opcode >= 0 && opcode < 256)
      take(static_cast<size_t>(opcode));
}

std::optional<Opcodes> read_opcodes(const Api& api) {
  const Ref module = imported_module(api, "opcode");
  // Not `opmap`: what has no name there stands as <number> here, and the list is a list in every version.
  const Ref names = attribute(api, module.get(), "opname");
  if (!names || shape_of(api, names.get()) != Shape::list) return std::nullopt;
  Opcodes out;
  for (Elements each(api, names.get(), 256); each.next();) {
    const auto opcode = static_cast<size_t>(each.index());
    out.names[opcode] = text(api, each.value());
    out.ends[opcode] = std::find(std::begin(kEnds), std::end(kEnds), out.names[opcode]) != std::end(kEnds);
    if (out.names[opcode] == "EXTENDED_ARG") out.extended_argument = static_cast<int>(opcode);
  }
  for_each_opcode(api, module.get(), "hasjrel", [&](size_t opcode) {
    const bool backward = out.names[opcode].find("BACKWARD") != std::string::npos;
    (backward ? out.jumps_backward : out.jumps_forward)[opcode] = true;
  });
  for_each_opcode(api, module.get(), "hasjabs", [&](size_t opcode) { out.jumps_to[opcode] = true; });
  return out.extended_argument < 0 ? std::nullopt : std::optional(std::move(out));
}

struct Handler {
  size_t offset;
  int depth;  // when it is entered, with the exception on top
};

// The handlers of an exception table (3.11 on): start, length, target, depth and whether the instruction is kept too,
// each a big-endian number of six bits a byte.
std::vector<Handler> handlers(const std::string& table) {
  std::vector<Handler> found;
  size_t at = 0;
  const auto number = [&] {
    size_t value = 0;
    bool more = true;
    while (more && at < table.size()) {
      const auto byte = static_cast<unsigned char>(table[at++]);
      value = value << 6 | (byte & 63);
      more = byte & 64;
    }
    return value;
  };
  while (at < table.size()) {
    number();
    number();
    const size_t target = 2 * number();
    const size_t depth = number();
    found.push_back({target, static_cast<int>(depth >> 1) + static_cast<int>(depth & 1) + 1});
  }
  return found;
}

// 3.10 to 3.12 begin a generator with the value on the stack that is sent first.
int depth_at_entry(const Api& api, PyObject* code, int minor) {
  constexpr long long kGenerator = 0x20, kCoroutine = 0x80, kAsyncGenerator = 0x200;
  const long long flags = integer(api, attribute(api, code, "co_flags").get(), 0);
  return minor >= 10 && minor <= 12 && flags & (kGenerator | kCoroutine | kAsyncGenerator);
}

}  // namespace

const Opcodes* opcodes(const Api& api) {
  static const Opcodes* known = nullptr;  // under the GIL; never freed
  if (!known)
    if (std::optional<Opcodes> read = read_opcodes(api)) known = new Opcodes(std::move(*read));
  return known;
}

std::optional<Bytecode> Bytecode::read(const Api& api, PyObject* code, int minor) {
  const Opcodes* names = api.PyCompile_OpcodeStackEffectWithJump ? opcodes(api) : nullptr;
  if (!names) return std::nullopt;
  Bytecode out(*names);
  out.decode(bytes(api, attribute(api, code, "co_code").get()), minor);
  if (!out.count(api, code, minor)) return std::nullopt;
  return out;
}

void Bytecode::decode(const std::string& bytes, int minor) {
  constexpr uint8_t kCache = 0;
  for (size_t at = 0; at + 1 < bytes.size();) {
    BytecodeInstruction one;
    one.begin = at;
    const auto take = [&] {
      one.opcode = static_cast<uint8_t>(bytes[at]);
      one.argument = one.argument << 8 | static_cast<uint8_t>(bytes[at + 1]);
      one.offset = at;
      at += 2;
    };
    take();
    while (one.opcode == opcodes_.extended_argument && at + 1 < bytes.size()) take();
    while (minor >= 11 && at + 1 < bytes.size() && static_cast<uint8_t>(bytes[at]) == kCache) at += 2;
    one.end = at;
    index_of_[one.begin] = index_of_[one.offset] = instructions_.size();
    instructions_.push_back(one);
  }
}

size_t Bytecode::target(const BytecodeInstruction& jump, int minor) const {
  const size_t distance = static_cast<size_t>(jump.argument) * (minor >= 10 ? 2 : 1);
  if (opcodes_.jumps_to[jump.opcode]) return distance;
  return opcodes_.jumps_backward[jump.opcode] ? jump.end - distance : jump.end + distance;
}

bool Bytecode::count(const Api& api, PyObject* code, int minor) {
  constexpr int kInvalid = INT_MAX;
  std::vector<size_t> open;
  bool agree = true;
  const auto reach = [&](size_t offset, int depth) {
    const auto found = index_of_.find(offset);
    if (found == index_of_.end() || depth < 0) {
      agree = false;
      return;
    }
    int& known = instructions_[found->second].depth;
    if (known == BytecodeInstruction::kUnset)
      open.push_back(found->second);
    else
      agree = agree && known == depth;
    known = depth;
  };
  reach(0, depth_at_entry(api, code, minor));
  if (minor >= 11)
    for (const Handler& handler : handlers(bytes(api, attribute(api, code, "co_exceptiontable").get())))
      reach(handler.offset, handler.depth);
  while (agree && !open.empty()) {
    const BytecodeInstruction one = instructions_[open.back()];
    open.pop_back();
    const auto after = [&](int jump) {
      return api.PyCompile_OpcodeStackEffectWithJump(one.opcode, one.argument, jump);
    };
    const bool jumps =
        opcodes_.jumps_forward[one.opcode] || opcodes_.jumps_backward[one.opcode] || opcodes_.jumps_to[one.opcode];
    if (after(0) == kInvalid || (jumps && after(1) == kInvalid)) return false;
    if (jumps) reach(target(one, minor), one.depth + after(1));
    if (!opcodes_.ends[one.opcode] && one.end < instructions_.back().end) reach(one.end, one.depth + after(0));
  }
  const long long most = integer(api, attribute(api, code, "co_stacksize").get(), 0);
  for (const BytecodeInstruction& one : instructions_) agree = agree && one.depth <= most;
  return agree;
}

const BytecodeInstruction* Bytecode::at(size_t offset) const {
  const auto found = index_of_.find(offset);
  if (found == index_of_.end()) return nullptr;
  const BytecodeInstruction& one = instructions_[found->second];
  return one.depth == BytecodeInstruction::kUnset ? nullptr : &one;
}

const BytecodeInstruction* Bytecode::before(const BytecodeInstruction& instruction) const {
  const auto index = static_cast<size_t>(&instruction - instructions_.data());
  return index == 0 ? nullptr : &instructions_[index - 1];
}

}  // namespace devtrace::python
