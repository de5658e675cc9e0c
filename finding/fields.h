// Visits the members of a finding's types, in the order of fields.inc.
#pragma once

#include <type_traits>

#include "finding/finding.h"

namespace devtrace::finding {

enum class Redaction { keep, code, file, kernel, said, inside, learn, drop, operation, argument };

template <bool kFirst, typename A, typename B>
constexpr auto& either(A& a, B& b) {
  if constexpr (kFirst)
    return a;
  else
    return b;
}

// visit(name in the log, member, redaction) for each row of `Rows`, which is `it`'s type, or says its order.
template <typename Rows, typename T, typename Visit>
void each_field_of(T& it, Visit&& visit) {
#define FIELD(structure, member, key, type, redaction, sentence) \
  if constexpr (std::is_same_v<Rows, structure>) visit(key, it.member, Redaction::redaction);
#include "finding/fields.inc"
}

// A finding's own fields and those of its kind stand among each other.
template <typename T, typename Visit>
void each_field(T& it, Visit&& visit) {
  if constexpr (std::is_same_v<std::remove_const_t<T>, Finding>) {
    std::visit(
        [&](auto& facts) {
          using Kind = std::remove_cvref_t<decltype(facts)>;
#define FIELD(structure, member, key, type, redaction, sentence)                       \
  if constexpr (std::is_same_v<Finding, structure> || std::is_same_v<Kind, structure>) \
    visit(key, either<std::is_same_v<Finding, structure>>(it, facts).member, Redaction::redaction);
#include "finding/fields.inc"
        },
        it.facts);
  } else {
    each_field_of<std::remove_const_t<T>>(it, visit);
  }
}

// visit(frame) for every frame that is told anywhere in `it`.
template <typename T, typename Visit>
void each_frame(T& it, const Visit& visit) {
  using Type = std::remove_const_t<T>;
  if constexpr (std::is_same_v<Type, Frame>)
    visit(it);
  else if constexpr (requires { it.is_known(); })
    for (auto& each : it) each_frame(each, visit);
  else if constexpr (
      std::is_class_v<Type> && !requires { it.c_str(); } && !requires { it.has_value(); })
    each_field(it, [&](auto, auto& member, Redaction) { each_frame(member, visit); });
}

}  // namespace devtrace::finding
