#include "binary/ptx/numbers.h"

#include <bit>
#include <charconv>
#include <cstdlib>
#include <string>
#include <system_error>

namespace devtrace::ptx {
namespace {

std::optional<uint64_t> whole(std::string_view digits, int base) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (digits.empty() || error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

// Half precision by way of double: what a compiler writes as a number of a 16-bit type.
uint16_t half_bits(double value) {
  return std::bit_cast<uint16_t>(static_cast<_Float16>(value));
}

}  // namespace

std::optional<Number> read_number(std::string_view word) {
  if (word.empty() || word[0] < '0' || word[0] > '9') return std::nullopt;
  if (word.size() > 2 && word[0] == '0' && (word[1] == 'f' || word[1] == 'F' || word[1] == 'd' || word[1] == 'D')) {
    const bool single = word[1] == 'f' || word[1] == 'F';
    const std::optional<uint64_t> bits = whole(word.substr(2), 16);
    if (!bits || word.size() != (single ? 10u : 18u)) return std::nullopt;
    return Number{single ? Number::Kind::real32 : Number::Kind::real, *bits};
  }
  const bool hexadecimal = word.size() > 2 && word[0] == '0' && (word[1] == 'x' || word[1] == 'X');
  if (!hexadecimal && word.find_first_of(".eE") != word.npos) {
    const std::string text(word);
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    if (end != text.c_str() + text.size()) return std::nullopt;
    return Number{Number::Kind::real, std::bit_cast<uint64_t>(value)};
  }
  if (word.back() == 'U') word.remove_suffix(1);
  std::optional<uint64_t> value;
  if (hexadecimal)
    value = whole(word.substr(2), 16);
  else if (word.size() > 2 && word[0] == '0' && (word[1] == 'b' || word[1] == 'B'))
    value = whole(word.substr(2), 2);
  else
    value = whole(word, word.size() > 1 && word[0] == '0' ? 8 : 10);
  if (!value) return std::nullopt;
  return Number{Number::Kind::integer, *value};
}

uint64_t bits_as(const Number& number, char kind, size_t bytes) {
  if (number.kind == Number::Kind::integer) {
    // A whole number where a floating point one is meant.
    if (kind == 'f' && bytes == 8) return std::bit_cast<uint64_t>(static_cast<double>(number.bits));
    if (kind == 'f' && bytes == 4) return std::bit_cast<uint32_t>(static_cast<float>(number.bits));
    return number.bits;
  }
  if (number.kind == Number::Kind::real32) {
    if (bytes != 8) return number.bits;
    return std::bit_cast<uint64_t>(static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(number.bits))));
  }
  const double value = std::bit_cast<double>(number.bits);
  if (bytes == 8) return number.bits;
  if (bytes == 2) return half_bits(value);
  return std::bit_cast<uint32_t>(static_cast<float>(value));
}

}  // namespace devtrace::ptx
