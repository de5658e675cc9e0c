#include "simulate/model/kernels/signature.h"

#include <algorithm>
#include <string_view>

#include "binary/names.h"

namespace devtrace::simulate {
namespace {

using Constness = ParameterType::Constness;

bool cut_end(std::string_view* text, std::string_view end) {
  if (!text->ends_with(end)) return false;
  text->remove_suffix(end.size());
  return true;
}

// Types whose values are no addresses. Those of 64 bits are used for addresses.
bool is_number(std::string_view type) {
  static constexpr std::string_view kNumbers[] = {
      "bool",   "char",         "signed char", "unsigned char", "short",         "unsigned short",
      "int",    "unsigned int", "float",       "double",        "__half",        "__nv_bfloat16",
      "half",   "nv_bfloat16",  "c10::Half",   "c10::BFloat16", "_Float16",      "__nv_fp8_e4m3",
      "float2", "float4",       "__half2",     "double2",       "__nv_fp8_e5m2",
  };
  return std::ranges::find(kNumbers, type) != std::end(kNumbers);
}

ParameterType parameter(std::string_view type) {
  while (cut_end(&type, " ")) {
  }
  if (!cut_end(&type, "*")) return {};
  ParameterType found;
  found.constness = cut_end(&type, " const") ? Constness::constant : Constness::writable;
  found.leads_on = !is_number(type);
  // A table of pointers: whether what these point to is written to.
  if (cut_end(&type, "*")) found.leads_on = !type.ends_with(" const");
  return found;
}

}  // namespace

std::vector<ParameterType> signature(const std::string& mangled) {
  const std::string name = binary::demangled(mangled);
  if (name.empty() || name.back() != ')') return {};
  std::vector<ParameterType> found;
  int depth = 0;
  // From the end: what stands in front has parentheses of its own.
  for (size_t at = name.size() - 1, end = at; at > 0; --at) {
    const char c = name[at];
    if (c == ')' || c == '>') ++depth;
    if (c == '(' || c == '<') --depth;
    if (depth > 1 || (c != ',' && depth != 0)) continue;
    std::string_view type = std::string_view(name).substr(at + 1, end - at - 1);
    while (type.starts_with(" ")) type.remove_prefix(1);
    found.push_back(parameter(type));
    end = at;
    if (depth == 0) break;
  }
  std::ranges::reverse(found);
  return found;
}

}  // namespace devtrace::simulate
