#include "binary/device/ptx_body.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <system_error>

namespace devtrace::device {
namespace {

using Words = std::vector<std::string_view>;

bool is_name(std::string_view word) {
  return std::isalnum(static_cast<unsigned char>(word[0])) || word[0] == '_' || word[0] == '%' || word[0] == '$';
}

// After ".loc", which has no semicolon: file line column [, function_name label [+ n], inlined_at file line column].
size_t after_location(const Words& words, size_t at) {
  for (++at; at < words.size(); ++at) {
    if (words[at] == "function_name")
      ++at;
    else if (!std::isdigit(static_cast<unsigned char>(words[at][0])) && words[at] != "," && words[at] != "+" &&
             words[at] != "inlined_at")
      break;
  }
  return at;
}

// The operands of "op.mod.mod a, {b, c}, [d+8]": the registers of each, and what is added to an address.
struct Operand {
  std::vector<std::string_view> registers;
  bool memory = false;
  size_t added = 0;
};

std::vector<Operand> operands_of(const Words& words, size_t at) {
  std::vector<Operand> all(1);
  int depth = 0;
  for (; at < words.size(); ++at) {
    const std::string_view word = words[at];
    if (word == "{" || word == "[") ++depth;
    if (word == "}" || word == "]") --depth;
    if (word == "[") all.back().memory = true;
    if (word == "+" && at + 1 < words.size()) all.back().added = ptx_number(words[++at]);
    if (word == "," && depth == 0)
      all.emplace_back();
    else if (is_name(word))
      all.back().registers.push_back(word);
  }
  return all;
}

bool has(const Words& words, size_t from, size_t to, std::string_view wanted) {
  return std::find(words.begin() + static_cast<std::ptrdiff_t>(from), words.begin() + static_cast<std::ptrdiff_t>(to),
                   wanted) != words.begin() + static_cast<std::ptrdiff_t>(to);
}

}  // namespace

size_t ptx_number(std::string_view word) {
  size_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  return error == std::errc::result_out_of_range ? kMostNumber : std::min(value, kMostNumber);
}

const PtxBody::Origin* PtxBody::origin(std::string_view name) const {
  const auto found = origins_.find(std::string(name));
  return found == origins_.end() ? nullptr : &found->second;
}

void PtxBody::set(std::string_view name, const Origin* from) {
  const Origin now = from ? *from : Origin{0, true};
  const auto [place, added] = origins_.emplace(std::string(name), now);
  if (!added && (place->second.offset != now.offset || now.either)) place->second.either = true;
}

// A load reads what is at its offset; any other mention of a parameter may read all of it.
void PtxBody::read_parameters(const Words& words, size_t from) {
  const bool load = words[from] == "ld" && from + 1 < words.size() && words[from + 1].starts_with(".param");
  for (size_t at = from; at < words.size(); ++at) {
    const auto name = names_.find(std::string(words[at]));
    if (name == names_.end()) continue;
    Bytes read = {name->second.offset, name->second.offset + name->second.size};
    if (load && at + 2 < words.size() && words[at + 1] == "+") read.begin += ptx_number(words[at + 2]);
    if (load) read.end = std::min(read.end, read.begin + 8);
    if (read.begin < read.end) facts_->reads.push_back(read);
  }
}

void PtxBody::follow(const Words& words, size_t from, bool guarded) {
  const std::string_view operation = words[from];
  size_t at = from + 1;
  while (at < words.size() && words[at][0] == '.') ++at;
  const auto is = [&](std::string_view modifier) { return has(words, from, at, modifier); };
  const std::vector<Operand> operands = operands_of(words, at);
  const bool wide = is(".u64") || is(".s64") || is(".b64") || is(".wide");
  if (operands.empty()) return;
  const bool to_memory = operation == "ld" || operation == "st" || operation == "atom" || operation == "red" ||
                         operation == "cp" || operation == "ldu";
  const bool global = is(".global") || !(is(".param") || is(".shared") || is(".const") || is(".local"));
  for (const Operand& operand : operands) {
    if (!to_memory || !global || !operand.memory || operand.registers.empty()) continue;
    const Origin* const base = origin(operand.registers[0]);
    const bool known = base && !base->either;
    if (operation == "st" || operation == "atom" || operation == "red") {
      if (known)
        facts_->writes.push_back({base->offset, base->offset + 8});
      else
        facts_->writes_elsewhere = true;
    }
    if (!known) continue;
    (guarded ? facts_->follows_perhaps : facts_->follows).push_back({base->offset, base->offset + 8});
  }
  if (operation == "st" || operation == "red" || operation == "cp" || operands[0].memory) return;

  // Of two words added one is an address and the other a number, but which?
  static constexpr Origin kEither{0, true};
  const auto of = [&](size_t index) -> const Origin* {
    return index < operands.size() && !operands[index].registers.empty() ? origin(operands[index].registers[0])
                                                                         : nullptr;
  };
  const auto sum = [&](const Origin* one, const Origin* other) { return one && other ? &kEither : one ? one : other; };
  Origin loaded;
  const Origin* result = nullptr;
  if (operation == "ld" && is(".param") && wide && operands.size() > 1 && operands[0].registers.size() == 1 &&
      !operands[1].registers.empty()) {
    if (const auto name = names_.find(std::string(operands[1].registers[0])); name != names_.end()) {
      loaded.offset = name->second.offset + operands[1].added;
      result = loaded.offset % 8 == 0 ? &loaded : nullptr;
    }
  } else if (operation == "ld" && wide) {
    result = &kEither;  // what comes out of memory may be an address
  } else if (operation == "mov" || operation == "cvta") {
    result = of(1);
  } else if (operation == "add") {
    result = sum(of(1), of(2));
  } else if (operation == "sub") {
    result = of(1);
  } else if (operation == "mad") {
    result = of(3);
  }
  for (const std::string_view written : operands[0].registers)
    if (result || origin(written)) set(written, result);
}

void PtxBody::statement(const Words& words) {
  // Guards, labels and places in the source come first.
  size_t from = 0;
  bool guarded = false;
  for (size_t before = words.size(); from < words.size() && before != from;) {
    before = from;
    if (words[from] == ".loc")
      from = after_location(words, from);
    else if (words[from] == "@" && (guarded = true))
      from += from + 1 < words.size() && words[from + 1] == "!" ? 3 : 2;
    else if (from + 1 < words.size() && words[from + 1] == ":")
      from += 2;
  }
  if (from >= words.size() || words[from][0] == '.') return;
  read_parameters(words, from);
  follow(words, from, guarded);
}

}  // namespace devtrace::device
