// Numbers of PTX.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace devtrace::ptx {

struct Number {
  enum class Kind : uint8_t { integer, real, real32 };
  Kind kind = Kind::integer;
  uint64_t bits = 0;
};

// 7, 7U, 0x7, 07, 0b111, 0f3F800000, 0d3FF0000000000000, 1.5e-3: as one word; nullopt: none of these.
std::optional<Number> read_number(std::string_view word);
// As bits of a type, given which kind the type is (TypeFacts::kind) and its bytes.
uint64_t bits_as(const Number& number, char kind, size_t bytes);

}  // namespace devtrace::ptx
