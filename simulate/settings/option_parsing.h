// What a rehearsal's options say: read alike by the command, which refuses what is wrong, and by the libraries, which
// complain and go on.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace devtrace::simulate {

constexpr int kMaxDevices = 16;
constexpr int kMaxHosts = 8;

// "24GiB", "800 MB", "4g", a number of bytes: bytes, from 2 MiB to 1 TiB; std::nullopt: none of these.
std::optional<size_t> read_memory(const char* text);

// Which results are computed (--values).
enum class ValuesPolicy : uint8_t {
  none,
  small,  // what is small, and whole numbers, unless they depend on what is not
  all,
};
struct WantedValues {
  ValuesPolicy policy = ValuesPolicy::all;
  bool asked = false;               // else large tensors are left once the host has no room for more
  size_t large = size_t{16} << 20;  // bytes; small: tensors from this size on are not computed
};
// "all", "none", "small", "small:64MiB"; std::nullopt: none of these. DEVTRACE_SIM_VALUES says besides: "0" for none,
// "python" for all by way of Python, "auto" for what holds when nobody has asked.
std::optional<WantedValues> read_values(const char* text);

// Bit j of entry i: device i can reach j's memory.
using Peers = std::array<uint32_t, kMaxDevices>;
Peers all_peers();
// "all", "none", or pairs of different devices like "0-1,2-3"; std::nullopt: none of these.
std::optional<Peers> read_peers(const char* text);

// A decimal number of 64 bits; std::nullopt: none.
std::optional<uint64_t> read_seed(const char* text);

// With what a rehearsed program ends that devtrace ends under --strict: the host has read what nobody computed.
constexpr int kNotComputed = 65;

}  // namespace devtrace::simulate
