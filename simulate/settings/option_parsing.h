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
