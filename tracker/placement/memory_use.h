// How much of each device PyTorch's tensors took at the most, where that was reached, and where it was not enough.
#pragma once

#include <string_view>

namespace devtrace::placement {

// The text of an error that PyTorch is about to raise. Where its allocator is out of a device's memory, a record says
// what was asked for, what was free, and the calling thread's line. Of the first 16 in a process. Takes no GIL.
void note_out_of_memory(std::string_view message) noexcept;

// A record for each device with tensors: at the end.
void write_memory();

}  // namespace devtrace::placement
