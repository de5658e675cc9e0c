// Kernels of PTX text: their names, parameters and thread limits. Enough to launch them without compiling.
#include <algorithm>
#include <cctype>
#include <cstring>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "binary/device/formats.h"
#include "binary/device/ptx_body.h"
#include "binary/ptx/lexer.h"
#include "binary/ptx/numbers.h"
#include "binary/ptx/types.h"

namespace devtrace::device {
namespace {

constexpr size_t kHead = 64 * 1024;  // bytes in which .version stands, comments before it included

constexpr size_t kMostWords = 256;  // of one statement

// The words of the text.
class Words {
 public:
  // Nothing may be added to a null pointer, not even nothing.
  Words(const char* text, size_t size) : lexer_(text ? std::string_view(text, size) : std::string_view()) {}
  std::string_view next() { return lexer_.next().text; }

 private:
  ptx::Lexer lexer_;
};

size_t type_bytes(std::string_view word) {
  const ptx::TypeFacts* const type = word.starts_with('.') ? ptx::find_type(word) : nullptr;
  return type ? type->bytes : 0;
}

using Names = PtxBody::Names;

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
      const size_t n = ptx_number(words.next());
      if (!size) alignment = n;
    } else if (word == "[") {
      std::string_view count = words.next();
      if (count != "]") size = std::min(size * ptx_number(count), kMostNumber);
    } else if (size_t bytes = type_bytes(word)) {
      size = bytes;
    } else if (word[0] != '.' && word != "]") {
      name = word;
    }
  }
  finish();
  facts->parameters_known = true;
}

bool begins_name(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%';
}

// After "=": a value, or values in braces; `element`: the bytes of each. Up to the end of the statement.
void read_initial(Words& words, size_t element, Variable* variable) {
  size_t at = 0;
  bool negative = false, in_generic = false;
  for (std::string_view word = words.next(); !word.empty() && word != ";"; word = words.next()) {
    if (word == "-") {
      negative = true;
    } else if (word == ",") {
      at += element;
    } else if (word == "generic") {
      in_generic = true;
    } else if (element == 0 || at + element > variable->bytes || element > sizeof(uint64_t)) {
      continue;  // without a type there is no telling how many bytes a value has
    } else if (const std::optional<ptx::Number> number = ptx::read_number(word)) {
      const uint64_t value = negative ? -number->bits : number->bits;
      negative = false;
      variable->initial.resize(std::max(variable->initial.size(), at + element));
      std::memcpy(variable->initial.data() + at, &value, element);
    } else if (begins_name(word[0]) && (in_generic || element == sizeof(uint64_t))) {
      variable->addresses.push_back({at, std::string(word), 0});
      in_generic = false;
    }
  }
}

// After ".global" or ".const" at file scope: [.attribute(.managed)] [.align N] .type name[count] [= …]
void read_variable(Words& words, Image* image) {
  size_t size = 0, element = 0;
  bool managed = false;
  std::string name;
  std::string_view word = words.next();
  for (; !word.empty() && word != ";" && word != "="; word = words.next()) {
    if (word == ".align")
      words.next();
    else if (word == "[") {
      std::string_view count = words.next();
      if (count != "]") size = std::min(size * ptx_number(count), kMostNumber);
    } else if (size_t bytes = type_bytes(word))
      size = element = bytes;
    else if (word == ".managed")
      managed = true;
    else if (word[0] != '.' && word != "]" && word != "(" && word != ")")
      name = word;
  }
  Variable variable;
  variable.bytes = size;
  variable.managed = managed;
  if (word == "=") read_initial(words, element, &variable);
  if (!name.empty() && size) image->variables[name] = std::move(variable);
}

}  // namespace

bool is_ptx(View image) {
  const auto* const begin = reinterpret_cast<const char*>(image.data);
  std::string_view text(begin, begin ? strnlen(begin, std::min(image.size, kHead)) : 0);
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

void read_ptx(View image, std::string_view only, Image* out) {
  Words words(reinterpret_cast<const char*>(image.data), image.size);
  int architecture = 0, depth = 0;
  KernelFacts* kernel = nullptr;
  Names names;
  std::optional<PtxBody> body;
  std::vector<std::string_view> statement;
  for (std::string_view word = words.next(); !word.empty(); word = words.next()) {
    if (word == "{") ++depth;
    if (word == "}" && --depth <= 0) {
      depth = 0;
      if (kernel) {
        tidy(&kernel->reads);
        tidy(&kernel->follows);
        tidy(&kernel->follows_perhaps);
        tidy(&kernel->writes);
      }
      kernel = nullptr;
    }
    if (depth && kernel) {
      if (!body) body.emplace(names, kernel);
      // A list of registers has braces as well as a block; what a block begins with is a statement by itself.
      const bool ends = word == ";" || (word == "{" && statement.empty()) || (word == "}" && statement.empty());
      if (!ends && statement.size() < kMostWords) statement.push_back(word);
      if (word == ";") {
        body->statement(statement);
        statement.clear();
      }
    }
    if (depth) continue;
    if (word == ".target") {
      std::string_view target = words.next();
      if (target.starts_with("sm_")) architecture = static_cast<int>(ptx_number(target.substr(3)));
    } else if (word == ".entry") {
      const std::string_view name = words.next();
      names.clear();
      body.reset();
      statement.clear();
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
      kernel->max_threads = static_cast<int>(ptx_number(words.next()));
    } else if ((word == ".global" || word == ".const") && only.empty()) {
      read_variable(words, out);
    }
  }
}

}  // namespace devtrace::device
