// Kernels of PTX text: their names, parameters and thread limits. Enough to launch them without compiling.
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <unordered_map>

#include "simulate/model/image_parts.h"

namespace devtrace::sim {
namespace {

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
        at_ += 2;
      } else {
        return;
      }
    }
  }
  const char *at_, *end_;
};

size_t type_bytes(std::string_view type) {
  if (type.size() < 3 || type[0] != '.') return 0;
  if (type == ".pred") return 1;
  size_t digits = type.find_first_of("0123456789");
  if (digits == std::string_view::npos || !std::strchr("bsuf", type[1])) return 0;
  return static_cast<size_t>(std::atoi(std::string(type.substr(digits)).c_str())) / 8;
}

int number(std::string_view word) {
  return std::atoi(std::string(word).c_str());
}

using Names = std::unordered_map<std::string, Parameter>;

// After "(": .param [.align N] .type [.ptr …] name[count], …
void read_parameters(Words& words, KernelFacts* facts, Names* names) {
  std::string name;
  size_t offset = 0, size = 0, alignment = 0;
  auto finish = [&] {
    if (!size) return;
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
      int n = number(words.next());
      if (!size) alignment = static_cast<size_t>(n);
    } else if (word == "[") {
      std::string_view count = words.next();
      if (count != "]") size *= static_cast<size_t>(number(count));
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
  size_t size = 0, alignment = 0;
  std::string name;
  for (std::string_view word = words.next(); !word.empty() && word != ";" && word != "="; word = words.next()) {
    if (word == ".align")
      alignment = static_cast<size_t>(number(words.next()));
    else if (word == "[") {
      std::string_view count = words.next();
      if (count != "]") size *= static_cast<size_t>(number(count));
    } else if (size_t bytes = type_bytes(word))
      size = bytes;
    else if (word[0] != '.' && word != "]")
      name = word;
  }
  (void)alignment;
  if (!name.empty() && size) image->variables[name] = size;
}

}  // namespace

bool is_ptx(const char* text) {
  for (int line = 0; line < 64; ++line) {
    while (std::isspace(static_cast<unsigned char>(*text))) ++text;
    if (!std::strncmp(text, ".version", 8)) return true;
    if (std::strncmp(text, "//", 2)) return false;
    while (*text && *text != '\n') ++text;
  }
  return false;
}

void read_ptx(const char* text, size_t size, Image* image) {
  Words words(text, size);
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
      if (loading && words.next() == "+") read.begin += static_cast<size_t>(number(words.next()));
      if (loading) read.end = std::min(read.end, read.begin + 8);
      kernel->reads.push_back(read);
    }
    if (depth) continue;
    if (word == ".target") {
      std::string_view target = words.next();
      if (target.substr(0, 3) == "sm_") architecture = number(target.substr(3));
    } else if (word == ".entry") {
      kernel = &image->kernels[std::string(words.next())];
      kernel->architecture = architecture;
      kernel->ptx = architecture;
      kernel->parameters_known = true;
      std::string_view open = words.next();
      names.clear();
      if (open == "(") read_parameters(words, kernel, &names);
      if (open == "{") ++depth;
    } else if (kernel && (word == ".maxntid" || word == ".reqntid")) {
      kernel->max_threads = number(words.next());
    } else if (word == ".global" || word == ".const") {
      read_variable(words, image);
    }
  }
}

}  // namespace devtrace::sim
