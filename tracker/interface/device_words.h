// Whether an error's text can be about devices at all: asked of every exception that Python makes, so it must cost
// nothing.
#pragma once

#ifdef __x86_64__
#include <emmintrin.h>
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tracker/interface/device_word_pairs.h"

namespace devtrace {

namespace device_words {

constexpr char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
}
constexpr bool letter(char c) {
  return lower(c) >= 'a' && lower(c) <= 'z';
}

// A word, and the place in it of the two letters that are looked for (in speaks_of_devices): a pair that is rare in
// other words.
struct Word {
  std::string_view text;
  size_t pair;
  bool whole;  // no letter may stand beside it: `meta` is also the beginning of `metadata`
};
inline constexpr Word kWords[] = {
    {"device", 2, false}, {"cuda", 1, false}, {"cpu", 1, false}, {"gpu", 1, false}, {"meta", 2, true}};
static_assert(std::ranges::all_of(kWords, [](const Word& word) {
  return std::ranges::any_of(kPairs, [&](const Pair& pair) {
    return word.text[word.pair] == pair.first && word.text[word.pair + 1] == pair.second;
  });
}));

inline bool stands_at(std::string_view text, size_t pair, const Word& word) {
  if (pair < word.pair) return false;
  const size_t begin = pair - word.pair, end = begin + word.text.size();
  if (end > text.size()) return false;
  for (size_t i = 0; i < word.text.size(); ++i)
    if (lower(text[begin + i]) != word.text[i]) return false;
  return !word.whole || ((begin == 0 || !letter(text[begin - 1])) && (end == text.size() || !letter(text[end])));
}

inline bool any_at(std::string_view text, size_t pair) {
  for (const Word& word : kWords)
    if (stands_at(text, pair, word)) return true;
  return false;
}

}  // namespace device_words

inline constexpr size_t kShortestDeviceError = device_words::kShortestText;

// Only the beginning of a long text is looked at.
inline bool speaks_of_devices(std::string_view text) {
  if (text.size() < kShortestDeviceError) return false;
  text = text.substr(0, device_words::kMostLooked);
#ifndef __x86_64__
  for (size_t pair = 0; pair + 1 < text.size(); ++pair)
    if (device_words::is_pair(text[pair], text[pair + 1]) && device_words::any_at(text, pair)) return true;
  return false;
#else
  const __m128i lower_case = _mm_set1_epi8(0x20);
  const auto block = [&](size_t at) {
    return _mm_or_si128(_mm_loadu_si128(reinterpret_cast<const __m128i*>(text.data() + at)), lower_case);
  };
  for (size_t at = 0;; at += 16) {
    // Pairs that begin in these 16 characters; the last block ends with the text.
    const size_t begin = at + 17 <= text.size() ? at : text.size() - 17;
    const __m128i here = block(begin), next = block(begin + 1);
    __m128i found = _mm_setzero_si128();
    for (const device_words::Pair& pair : device_words::kPairs)
      found = _mm_or_si128(found, _mm_and_si128(_mm_cmpeq_epi8(here, _mm_set1_epi8(pair.first)),
                                                _mm_cmpeq_epi8(next, _mm_set1_epi8(pair.second))));
    for (int mask = _mm_movemask_epi8(found); mask != 0; mask &= mask - 1)
      if (device_words::any_at(text, begin + static_cast<size_t>(__builtin_ctz(mask)))) return true;
    if (at + 17 >= text.size()) return false;
  }
#endif
}

}  // namespace devtrace
