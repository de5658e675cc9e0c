#include "binary/ptx/types.h"

#include <iterator>

namespace devtrace::ptx {
namespace {

// In the order of Type.
constexpr TypeFacts kTypes[] = {
    {"", Type::none, 0, ' '},           {"pred", Type::pred, 1, 'p'},
    {"b8", Type::b8, 1, 'b'},           {"b16", Type::b16, 2, 'b'},
    {"b32", Type::b32, 4, 'b'},         {"b64", Type::b64, 8, 'b'},
    {"b128", Type::b128, 16, 'b'},      {"u8", Type::u8, 1, 'u'},
    {"u16", Type::u16, 2, 'u'},         {"u32", Type::u32, 4, 'u'},
    {"u64", Type::u64, 8, 'u'},         {"s8", Type::s8, 1, 's'},
    {"s16", Type::s16, 2, 's'},         {"s32", Type::s32, 4, 's'},
    {"s64", Type::s64, 8, 's'},         {"f16", Type::f16, 2, 'f'},
    {"f16x2", Type::f16x2, 4, 'h'},     {"bf16", Type::bf16, 2, 'f'},
    {"bf16x2", Type::bf16x2, 4, 'h'},   {"f32", Type::f32, 4, 'f'},
    {"f64", Type::f64, 8, 'f'},         {"tf32", Type::tf32, 4, 'f'},
    {"e4m3", Type::e4m3, 1, 'f'},       {"e5m2", Type::e5m2, 1, 'f'},
    {"e4m3x2", Type::e4m3x2, 2, 'h'},   {"e5m2x2", Type::e5m2x2, 2, 'h'},
    {"s4", Type::s4, 0, 's'},           {"u4", Type::u4, 0, 'u'},
    {"b1", Type::b1, 0, 'b'},           {"f32x2", Type::f32x2, 8, 'h'},
    {"u16x2", Type::u16x2, 4, 'h'},     {"s16x2", Type::s16x2, 4, 'h'},
    {"texref", Type::texref, 8, 'o'},   {"samplerref", Type::samplerref, 8, 'o'},
    {"surfref", Type::surfref, 8, 'o'},
};
static_assert(std::size(kTypes) == static_cast<size_t>(Type::surfref) + 1);

struct SpaceName {
  std::string_view name;
  Space space;
};
constexpr SpaceName kSpaces[] = {
    {".reg", Space::reg},     {".const", Space::constant}, {".global", Space::global},
    {".local", Space::local}, {".param", Space::param},    {".shared", Space::shared},
};

}  // namespace

const TypeFacts* find_type(std::string_view name) {
  if (name.starts_with('.')) name.remove_prefix(1);
  if (name.empty()) return nullptr;
  for (const TypeFacts& one : kTypes)
    if (one.name == name) return &one;
  return nullptr;
}

const TypeFacts& facts(Type type) {
  return kTypes[static_cast<size_t>(type)];
}

Space find_space(std::string_view name) {
  if (const size_t colon = name.find(':'); colon != name.npos) name = name.substr(0, colon);
  for (const SpaceName& one : kSpaces)
    if (one.name == name) return one.space;
  return Space::none;
}

}  // namespace devtrace::ptx
