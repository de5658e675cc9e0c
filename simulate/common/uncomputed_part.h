// What nobody has computed of a piece of memory, as one process tells another.
#pragma once

#include <cstdint>

namespace devtrace::simulate {

// From the first byte of it to the end of the last one, none where these are equal; and who should have written it.
struct UncomputedPart {
  uint64_t begin, end;
  char source[80];
};

}  // namespace devtrace::simulate
