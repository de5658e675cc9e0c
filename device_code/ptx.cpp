// Kernels of PTX text: their names, parameters and thread limits. Enough to launch them without compiling.
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstring>
#include <string_view>
#include <system_error>
#include <unordered_map>

#include "device_code/formats.h"

namespace devtrace::device_code {
namespace {

constexpr size_t kHead = 64 * 1024;  // bytes in which .version stands, comments before it included

// Words of PTX: names, directives, numbers, single characters.
class Words {
 public:
  Words(const char* text, size_t size) : at_(text), end_(text + size) {}

  std::string_view next() {
    skip();
    if (at_ >= end_ || !*at_) return {};
    const char* begin = at_;
    if (in_word(*at_) || *at_ == '.') {
      ++at_;
      while (at_ < end_ && in_word(*at_)) ++at_;
    } else {
      ++at_;
    }
    return {begin, static_cast<size_t>(at_ - begin)};
  }

 private:
  static bool in_word(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%';
  }
  void skip() {
    for (;;) {
      while (at_ < end_ && std::isspace(static_cast<unsigned char>(*at_))) ++at_;
      if (at_ + 1 < end_ && at_[0] == '/' && at_[1] == '/') {
        while (at_ < end_ && *at_ != '\n') ++at_;
      } else if (at_ + 1 < end_ && at_[0] == '/' && at_[1] == '*') {
        at_ += 2;
        while (at_ + 1 < end_ && !(at_[0] == '*' && at_[1] == '/')) ++at_;
        at_ = std::min(at_ + 2, end_);
      } else {
        return;
      }
    }
  }
  const char *at_, *end_;
};

// Clamped: what is larger than this is nonsense.
constexpr size_t kMostNumber = size_t{1} << 30;
size_t number(std::string_view word) {
  size_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  return error == std::errc::result_out_of_range ? kMostNumber : std::min(value, kMostNumber);
}

size_t type_bytes(std::string_view type) {
  if (type.size() < 3 || type[0] != '.') return 0;
  if (type == ".pred") return 1;
  size_t digits = type.find_first_of("0123456789");
  if (digits == std::string_view::npos || !std::strchr("bsuf", type[1])) return 0;
  return std::min(number(type.substr(digits)), size_t{1024}) / 8;
}

using Names = std::unordered_map<std::string, Parameter>;

// After "(": .param [.align N] .type [.ptr …] name[count], …
void read_parameters(Words& words, KernelFacts* facts, Names* names) {
  std::string name;
  size_t offset = 0, size = 0, alignment = 0;
  auto finish = [&] {
    if (!size || size > kMostParameterBytes || facts->parameters.size() >= kMostParameters) return;
    if (!alignment) alignment = size;
    offset = (offset + alignment - 1) / alignment * alignment;
    facts->parameters.push_back({offset, size});
    (*names)[name] = {offset, size};
    offset += size;
    size = alignment = 0;
  };
  for (std::string_view word = words.next(); !word.empty() && word != ")"; word = words.next()) {
    if (word == ",") {
      finish();
    } else if (word == ".ptr") {
      // The alignment that follows is that of what it points to.
      continue;
    } else if (word == ".align") {
      const size_t n = number(words.next());
      if (!size) alignment = n;
    } else if (word == "[") {
      std::string_view count = words.next();
      if (count != "]") size = std::min(size * number(count), kMostNumber);
    } else if (size_t bytes = type_bytes(word)) {
      size = bytes;
    } else if (word[0] != '.' && word != "]") {
      name = word;
    }
  }
  finish();
  facts->parameters_known = true;
}

// After ".global" or ".const" at file scope: [.align N] .type name[count]
void read_variable(Words& words, Image* image) {
  size_t size = 0;
  std::string name;
  for (std::string_view word = words.next(); !word.empty() && word != ";" && word != "="; word = words.next()) {
    if (word == ".align")
      words.next();
    else if (word == "[") {
      std::string_view count = words.next();
      if (count != "]") size = std::min(size * number(count), kMostNumber);
    } else if (size_t bytes = type_bytes(word))
      size = bytes;
    else if (word[0] != '.' && word != "]")
      name = word;
  }
  if (!name.empty() && size) image->variables[name] = size;
}

}  // namespace

bool is_ptx(Span image) {
  const auto* const begin = reinterpret_cast<const char*>(image.data);
  std::string_view text(begin, begin ? strnlen(begin, std::min(image.bytes, kHead)) : 0);
  for (int line = 0; line < 64; ++line) {
    while (!text.empty() && std::isspace(static_cast<unsigned char>(text[0]))) text.remove_prefix(1);
    if (text.starts_with(".version")) return true;
    if (!text.starts_with("//")) return false;
    const size_t end = text.find('\n');
    if (end == text.npos) return false;
    text.remove_prefix(end);
  }
  return false;
}

void read_ptx(Span image, std::string_view only, Image* out) {
  Words words(reinterpret_cast<const char*>(image.data), image.bytes);
  int architecture = 0, depth = 0;
  KernelFacts* kernel = nullptr;
  Names names;
  bool loading = false;  // in an ld.param
  for (std::string_view word = words.next(); !word.empty(); word = words.next()) {
    if (word == "{") ++depth;
    if (word == "}" && --depth == 0) {
      if (kernel) tidy(&kernel->reads);
      kernel = nullptr;
    }
    if (depth && kernel) {
      if (word == ".param") loading = true;
      if (word == ";") loading = false;
      auto it = names.find(std::string(word));
      if (it == names.end()) continue;
      // A load reads what is at its offset (no more than 16 bytes); any other mention may read all of it.
      Bytes read = {it->second.offset, it->second.offset + it->second.size};
      if (loading && words.next() == "+") read.begin += number(words.next());
      if (loading) read.end = std::min(read.end, read.begin + 8);
      if (read.begin < read.end) kernel->reads.push_back(read);
    }
    if (depth) continue;
    if (word == ".target") {
      std::string_view target = words.next();
      if (target.starts_with("sm_")) architecture = static_cast<int>(number(target.substr(3)));
    } else if (word == ".entry") {
      const std::string_view name = words.next();
      names.clear();
      kernel = nullptr;
      if (!only.empty() && name != only) continue;
      kernel = &out->kernels[std::string(name)];
      *kernel = {};
      kernel->architecture = architecture;
      kernel->ptx = architecture;
      kernel->parameters_known = true;
      std::string_view open = words.next();
      if (open == "(") read_parameters(words, kernel, &names);
      if (open == "{") ++depth;
    } else if (kernel && (word == ".maxntid" || word == ".reqntid")) {
      kernel->max_threads = static_cast<int>(number(words.next()));
    } else if ((word == ".global" || word == ".const") && only.empty()) {
      read_variable(words, out);
    }
  }
}

}  // namespace devtrace::device_code
