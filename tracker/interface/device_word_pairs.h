// The first look at an exception's text: has it one of four pairs of letters, of which every device word has one? Most
// texts have none.
//
// What costs here seems to be jumps more than reading: an interpreter's own jumps are foretold from those before them
// (docs/measurements.md). So a text of usual length is looked at in one go, in blocks that overlap where it ends.
#pragma once

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include <algorithm>
#include <cstddef>
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
// Hot. `size` is kShortestText at least. For processors with AVX2. Written out, since a loop is a jump.
[[gnu::target("avx2"), gnu::always_inline]] inline bool has_pair(const char* text, size_t size) {
  if (size < 33) {
    const auto look = [](const char* block) __attribute__((target("avx2"), always_inline)) {
      const __m128i lower_case = _mm_set1_epi8(0x20);
      const __m128i here = _mm_or_si128(_mm_loadu_si128(reinterpret_cast<const __m128i*>(block)), lower_case);
      const __m128i next = _mm_or_si128(_mm_loadu_si128(reinterpret_cast<const __m128i*>(block + 1)), lower_case);
      const auto is = [&](Pair pair) __attribute__((target("avx2"), always_inline)) {
        return _mm_and_si128(_mm_cmpeq_epi8(here, _mm_set1_epi8(pair.first)),
                             _mm_cmpeq_epi8(next, _mm_set1_epi8(pair.second)));
      };
      return _mm_or_si128(_mm_or_si128(is(kPairs[0]), is(kPairs[1])), _mm_or_si128(is(kPairs[2]), is(kPairs[3])));
    };
    return _mm_movemask_epi8(_mm_or_si128(look(text), look(text + size - 17))) != 0;
  }
  const size_t last = std::min(size, kMostLooked) - 33;
  const auto look = [&](size_t at) __attribute__((target("avx2"), always_inline)) {
    const char* const block = text + std::min(at, last);
    const __m256i lower_case = _mm256_set1_epi8(0x20);
    const __m256i here = _mm256_or_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(block)), lower_case);
    const __m256i next = _mm256_or_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(block + 1)), lower_case);
    const auto is = [&](Pair pair) __attribute__((target("avx2"), always_inline)) {
      return _mm256_and_si256(_mm256_cmpeq_epi8(here, _mm256_set1_epi8(pair.first)),
                              _mm256_cmpeq_epi8(next, _mm256_set1_epi8(pair.second)));
    };
    return _mm256_or_si256(_mm256_or_si256(is(kPairs[0]), is(kPairs[1])),
                           _mm256_or_si256(is(kPairs[2]), is(kPairs[3])));
  };
  __m256i found = _mm256_or_si256(look(0), look(32));
  for (size_t at = 64; __builtin_expect(at <= last + 31, 0); at += 64)
    found = _mm256_or_si256(found, _mm256_or_si256(look(at), look(at + 32)));
  return _mm256_movemask_epi8(found) != 0;
}
#endif

}  // namespace devtrace::device_words
