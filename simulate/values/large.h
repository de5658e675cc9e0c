// From which size on --values small leaves tensors: from the start, or from where the host has no room for more.
#pragma once

#include <atomic>
#include <cstddef>
#include <string>

namespace devtrace::simulate::values {

// Tensors of floating point from this size in bytes on are not computed; SIZE_MAX: all are.
size_t large_from();
std::atomic<size_t>& large_bytes();

// The host has no room for `what` it was asked for ("64 MiB more were asked for, and 20 MiB are left"). Large tensors
// are left from now on, if nobody has asked for all values, and somebody here knows what is unknown. What was computed
// stays. One line says so where the first operator is left: the caller may be an allocator, under its lock.
bool leave_large_from_now(const std::string& what);
// PyTorch's operators know from here on what is unknown.
void kernels_follow_unknown();
// Code was compiled that computes all it is given.
void code_is_compiled();
// What the host was asked for when that began; null: it was so from the start, or is not.
const std::string* why_large_is_left();

}  // namespace devtrace::simulate::values
