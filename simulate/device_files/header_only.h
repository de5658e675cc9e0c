// Checkpoints of which nothing but the header is there, or is wanted: `devtrace rehearse --weights header`.
#pragma once

namespace devtrace::simulate {

// What an opening function answers with. The number of a file of safetensors, opened for reading, then stands for one
// of the full size, whose header is the file's. Its weights are zeros that take no memory until they are read. Where
// the header is not whole a line says so, and the file stays. errno stays.
int header_only(int opened, const char* path, int flags) noexcept;

}  // namespace devtrace::simulate
