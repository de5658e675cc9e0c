// With what a rehearsed program ends that devtrace ends.
#pragma once

namespace devtrace::simulate {

// --strict: the host has read what nobody computed.
constexpr int kNotComputed = 65;

}  // namespace devtrace::simulate
