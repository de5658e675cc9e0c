// How a C++ line says a device, and the line that makes it the current one: in the program's own words where these
// count there, else by its number.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/verdict/cause.h"

namespace devtrace::report::verdict {

// A device that is wanted, and how the program has said it elsewhere.
struct WantedDevice {
  std::string_view device;                // cuda:1
  const DeviceChoice& chosen;             // which made it current once, where that is known
  const DeviceChoice* instead = nullptr;  // which made another one current where it was wanted
  std::string_view pointer = {};          // an object whose device it is: `shard.x` stands beside `shard.device`
};

// All lines of a source file. A verdict that is made where the program runs has them; without them a line has no words
// but those that the finding shows.
using SourceLines = std::vector<std::string> (*)(const std::string& file);
void read_sources_by(SourceLines lines);
// Those of that file; none where nobody reads them.
std::vector<std::string> lines_of(const std::string& file);

// A name for a variable of the line's function: this one, unless its file has it.
std::string free_name(const Frame& line, std::string name);

// The ordinal of cuda:1.
std::string ordinal_of(std::string_view device);

// What the line can say for it; empty: nothing but its number.
std::string device_words(const WantedDevice& wanted, const Frame& line);

// The first of the stack's own lines that has words for it, with what chooses it in front; for want of words
// `otherwise` with its number. `counts`: which of the lines may be changed.
template <class Counts>
std::optional<Fix> choose_before(const Stack& stack, const WantedDevice& wanted, const Frame* otherwise,
                                 const Counts& counts);

// The line with `cudaSetDevice(…)` or, where a context was chosen so, `cuCtxSetCurrent(…)` in front of it.
std::optional<Fix> chosen_before(const Frame& line, const WantedDevice& wanted, std::string_view words);

template <class Counts>
std::optional<Fix> choose_before(const Stack& stack, const WantedDevice& wanted, const Frame* otherwise,
                                 const Counts& counts) {
  for (const Frame& line : stack) {
    if (!line.project || !counts(line)) continue;
    const std::string words = device_words(wanted, line);
    if (words.empty()) continue;
    if (auto fix = chosen_before(line, wanted, words)) return fix;
  }
  return otherwise ? chosen_before(*otherwise, wanted, ordinal_of(wanted.device)) : std::nullopt;
}

// The line of a guard's destructor that puts back another device than it found, with the one that it keeps for that.
std::optional<Fix> put_back(const DeviceChoice& choice);

}  // namespace devtrace::report::verdict
