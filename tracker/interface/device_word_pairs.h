// The first look at an exception's text: has it one of four pairs of letters, of which every device word has one? Most
// texts have none.
//
// Asked of every exception that a program makes, so a block of sixteen characters has to cost few instructions
// (docs/evidence/measurements.md). It costs three look-ups in tables of sixteen entries instead of eight comparisons.
#pragma once

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>

namespace devtrace::device_words {

inline constexpr size_t kShortestText = 17;
// Only the beginning of a long text is looked at.
inline constexpr size_t kMostLooked = 4096;

struct Pair {
  char first, second;
};
// Rare in other words, as pairs go.
inline constexpr Pair kPairs[] = {{'v', 'i'}, {'u', 'd'}, {'p', 'u'}, {'t', 'a'}};

// Of letters in either case.
inline bool is_pair(char first, char second) {
  return std::any_of(std::begin(kPairs), std::end(kPairs),
                     [&](Pair pair) { return (first | 0x20) == pair.first && (second | 0x20) == pair.second; });
}

#ifdef __x86_64__
// A bit for each of kPairs, by four bits of a character: which pairs it can be a part of.
struct PairTables {
  alignas(16) std::array<uint8_t, 16> first_low{}, second_low{}, second_high{};
};
constexpr PairTables kPairTables = [] {
  PairTables tables;
  for (size_t i = 0; i < std::size(kPairs); ++i) {
    const auto bit = static_cast<uint8_t>(1u << i);
    const auto first = static_cast<uint8_t>(kPairs[i].first), second = static_cast<uint8_t>(kPairs[i].second);
    tables.first_low[first & 15] |= bit;
    tables.second_low[second & 15] |= bit;
    tables.second_high[second >> 4] |= bit;
    tables.second_high[(second >> 4) & ~2u] |= bit;  // the capital letter
  }
  return tables;
}();
// What has_pair() asks of a pair's first letter, capital or not.
constexpr uint8_t kFirstHigh = 0x70;
static_assert(std::all_of(std::begin(kPairs), std::end(kPairs),
                          [](Pair pair) { return (pair.first & 0xf0) == kFirstHigh; }));

// Hot. Of ASCII text; `size` is kShortestText at least. The last block ends with the text and overlaps the one before.
[[gnu::target("avx"), gnu::always_inline]] inline bool has_pair(const char* text, size_t size) {
  const auto look = [text](size_t at) __attribute__((target("avx"), always_inline)) {
    const auto table = [](const std::array<uint8_t, 16>& of) __attribute__((target("avx"), always_inline)) {
      return _mm_load_si128(reinterpret_cast<const __m128i*>(of.data()));
    };
    const __m128i here = _mm_loadu_si128(reinterpret_cast<const __m128i*>(text + at));
    const __m128i next = _mm_loadu_si128(reinterpret_cast<const __m128i*>(text + at + 1));
    const __m128i is_high =
        _mm_cmpgt_epi8(_mm_or_si128(here, _mm_set1_epi8(0x20)), _mm_set1_epi8(static_cast<char>(kFirstHigh - 1)));
    const __m128i first = _mm_and_si128(is_high, _mm_shuffle_epi8(table(kPairTables.first_low), here));
    const __m128i high = _mm_and_si128(_mm_srli_epi16(next, 4), _mm_set1_epi8(15));
    return _mm_and_si128(first, _mm_and_si128(_mm_shuffle_epi8(table(kPairTables.second_low), next),
                                              _mm_shuffle_epi8(table(kPairTables.second_high), high)));
  };
  const size_t last = std::min(size, kMostLooked) - kShortestText;
  __m128i found = look(last);
  for (size_t at = 0; at < last; at += 16) found = _mm_or_si128(found, look(at));
  return !_mm_testz_si128(found, found);
}
#endif

}  // namespace devtrace::device_words
