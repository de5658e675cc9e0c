#include "binary/ptx/parse.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "binary/ptx/parser.h"

namespace devtrace::ptx {

bool Instruction::has(std::string_view modifier) const {
  return std::find(modifiers.begin(), modifiers.end(), modifier) != modifiers.end();
}

const Function* Module::find(std::string_view name) const {
  const Function* found = nullptr;
  for (const Function& f : functions)
    if (f.name == name && (!found || f.defined)) found = &f;
  return found;
}

Token Parser::take() {
  const Token was = token_;
  token_ = lexer_.next();
  return was;
}

bool Parser::accept(std::string_view text) {
  if (token_.text != text) return false;
  take();
  return true;
}

bool Parser::expect(std::string_view text) {
  if (accept(text)) return true;
  return fail("expected '" + std::string(text) + "'");
}

// The first one counts. What is left is not read.
bool Parser::fail(std::string text) {
  if (!failed_) {
    constexpr size_t kMost = 40;
    error_.line = token_.line;
    error_.text = std::move(text);
    error_.text += at_end() ? " at the end" : " at '" + std::string(token_.text.substr(0, kMost)) + "'";
  }
  failed_ = true;
  lexer_ = Lexer({});
  token_.text = {};
  return false;
}

// ".level::eviction_priority" as one word.
std::string_view Parser::modifier() {
  const Token first = take();
  const char* end = first.text.data() + first.text.size();
  for (bool colon = false; token_.adjacent && !at_end() && (is(":") || colon);) {
    colon = is(":");
    end = token_.text.data() + token_.text.size();
    take();
  }
  return {first.text.data(), static_cast<size_t>(end - first.text.data())};
}

// A number, which the lexer may have cut at its point and its sign.
std::optional<Number> Parser::number() {
  std::string_view word = take().text;
  if (word.empty()) return std::nullopt;
  const char* end = word.data() + word.size();
  const bool hexadecimal = word.size() > 1 && word[0] == '0' && std::isalpha(static_cast<unsigned char>(word[1]));
  const auto join = [&] {
    end = token_.text.data() + token_.text.size();
    take();
  };
  if (!hexadecimal && token_.adjacent && token_.text.starts_with('.')) join();
  if (!hexadecimal && (end[-1] == 'e' || end[-1] == 'E') && token_.adjacent && (is("-") || is("+"))) {
    join();
    if (token_.adjacent && !at_end()) join();
  }
  return read_number({word.data(), static_cast<size_t>(end - word.data())});
}

bool Parser::whole(uint64_t* value, uint64_t most) {
  const std::optional<Number> n = number();
  if (!n || n->kind != Number::Kind::integer || n->bits > most)
    return fail("expected a number of at most " + std::to_string(most));
  *value = n->bits;
  return true;
}

void Parser::skip_statement() {
  while (!at_end() && !is(";")) take();
  accept(";");
}

// .section .debug_info { … }
void Parser::skip_section() {
  while (!at_end() && !is("{")) take();
  int depth = 0;
  while (!at_end()) {
    if (is("{")) ++depth;
    const bool ends = is("}") && --depth == 0;
    take();
    if (ends) break;
  }
}

// .file 1 "path" [, time, size]
void Parser::read_file() {
  uint64_t index = 0;
  if (!whole(&index, UINT32_MAX)) return;
  std::string_view path = take().text;
  if (path.size() < 2 || path[0] != '"') {
    fail("expected a path");
    return;
  }
  module_.files[static_cast<uint32_t>(index)] = path.substr(1, path.size() - 2);
  while (accept(",")) number();
}

void Parser::directive() {
  bool external = false;
  while (accept(".visible") || accept(".weak") || accept(".common") ||
         (is(".extern") && (external = true) && accept(".extern"))) {
  }
  const Token word = take();
  if (word.text == ".version") {
    const std::string_view major = take().text;
    const std::string_view minor = token_.adjacent ? take().text : std::string_view();
    const std::optional<Number> a = read_number(major),
                                b = read_number(minor.substr(std::min<size_t>(1, minor.size())));
    if (a && b)
      module_.version = static_cast<int>(std::min<uint64_t>(a->bits, 99) * 10 + std::min<uint64_t>(b->bits, 9));
  } else if (word.text == ".target") {
    do {
      const std::string_view target = take().text;
      if (!target.starts_with("sm_")) continue;
      std::string_view digits = target.substr(3);
      while (!digits.empty() && !std::isdigit(static_cast<unsigned char>(digits.back()))) digits.remove_suffix(1);
      if (const auto n = read_number(digits))
        module_.architecture = static_cast<int>(std::min<uint64_t>(n->bits, 9999));
    } while (accept(","));
  } else if (word.text == ".address_size") {
    uint64_t bits = 0;
    if (whole(&bits, 64)) module_.address_size = static_cast<int>(bits);
  } else if (word.text == ".file") {
    read_file();
  } else if (word.text == ".section") {
    skip_section();
  } else if (word.text == ".entry" || word.text == ".func") {
    function(word.text == ".entry", external);
  } else if (word.text == ".pragma" || word.text == ".alias") {
    skip_statement();
  } else if (const Space space = find_space(word.text); space != Space::none && space != Space::reg) {
    declaration(space, external, &module_.variables, nullptr);
  } else if (word.text != ";") {
    // The lexer is behind it by now.
    fail("unknown directive '" + std::string(word.text.substr(0, 40)) + "' before");
  }
}

void Parser::header() {
  const std::string_view text = *module_.text;
  module_.header = text.substr(0, std::min(text.find(".version"), text.size()));
}

bool Parser::parse() {
  header();
  take();
  if (!is(".version")) return fail("expected .version");
  while (!at_end() && !failed_) directive();
  return !failed_;
}

std::optional<Module> parse(std::string text, Error* error) {
  Module module;
  module.text = std::make_shared<const std::string>(std::move(text));
  Parser parser(&module);
  if (parser.parse()) return module;
  *error = parser.error();
  return std::nullopt;
}

}  // namespace devtrace::ptx
