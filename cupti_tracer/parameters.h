// A function's arguments, as CUPTI hands them over: in a structure with one member for each parameter, in their order.
// Its layout follows from the function's type, so the hooks' own declarations are all that has to be known.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <utility>

namespace devtrace::cupti_tracer {

// Where each member of a structure of these types lies.
template <class... Members>
constexpr std::array<size_t, sizeof...(Members)> offsets() {
  std::array<size_t, sizeof...(Members)> at{};
  size_t end = 0, i = 0;
  (..., (at[i] = (end + alignof(Members) - 1) / alignof(Members) * alignof(Members), end = at[i++] + sizeof(Members)));
  return at;
}

template <class Member>
Member member(const void* structure, size_t offset) {
  Member value;
  std::memcpy(&value, static_cast<const char*>(structure) + offset, sizeof value);
  return value;
}

// Calls `function` with the members of the structure at `packed`.
template <class Result, class... Parameters>
void call_with(Result (*function)(Parameters...), const void* packed) {
  constexpr auto kOffsets = offsets<Parameters...>();
  [&]<size_t... i>(std::index_sequence<i...>) {
    function(member<Parameters>(packed, kOffsets[i])...);
  }
  (std::index_sequence_for<Parameters...>{});
}
template <class Result>
void call_with(Result (*function)(), const void*) {
  function();
}

}  // namespace devtrace::cupti_tracer
