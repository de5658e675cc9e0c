// One try of `devtrace place`, and what it showed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/place/tries.h"
#include "process/start.h"

namespace devtrace::cli::place {

enum class End : uint8_t { fits, out_of_memory, failed, too_long };

// A module that stays whole.
struct Block {
  std::string name;
  uint64_t bytes = 0;
};

struct Measured {
  Values values;
  End end = End::failed;
  int code = 0;
  double seconds = 0;
  int gpus = 0;
  size_t memory = 0;                       // bytes of each device
  std::map<int, uint64_t> peaks, weights;  // bytes by device, at the most and weights of that, of all processes
  uint64_t between = 0, to_devices = 0;    // bytes that were copied between devices, and from the host
  uint64_t working = 0, offloaded = 0;     // … of both while the program worked, not to make it ready
  std::map<std::string, std::string> map;  // where each module lies, if accelerate dealt the model out
  std::map<int, uint64_t> limits;          // MiB by device with which accelerate comes to that map by itself
  std::vector<Block> blocks;               // of the model, in its order
  std::vector<std::string> full;           // where memory was not enough, in words
  std::string last_line;                   // of what it wrote, where it did not fit

  size_t cost() const { return memory * static_cast<size_t>(gpus); }  // all memory of all devices
};

// Runs it for `timeout` seconds at most; what it leaves goes to `folder`, which is empty. Throws process::CannotStart.
Measured run(const process::Program& program, const std::filesystem::path& folder, double timeout);

// A map for accelerate by which each device would have as much at its peak as the others. What was measured besides
// weights stays where it was. Empty: too little is known.
std::string balanced_map(const Measured& measured);

// Of those that fit one for each combination of the program's own values: with the least memory of all devices, then
// the fewest devices, then the fewest bytes between them.
std::vector<const Measured*> cheapest(const std::vector<Measured>& all);

}  // namespace devtrace::cli::place
