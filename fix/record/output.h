// What a run printed: a file whose middle is let go of, so that a run that prints without end fills no disk.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace devtrace::fix {

// Gives the middle of a long file back to the disk. Its ends stay where they are, and whoever appends to it goes on.
void keep_ends(const std::filesystem::path& output);

// The bytes that were let go of.
uint64_t not_kept(const std::filesystem::path& output);

// A hash of its lines, at most of the first mebibyte: what is the same in two runs. Left out are devtrace's lines,
// those that are written over (bars of progress), logs' with their times, and the numbers of devices. In any order, as
// several processes have none.
size_t printed(const std::filesystem::path& output);

// The last line that is not empty or devtrace's.
std::string last_line(const std::filesystem::path& output);

}  // namespace devtrace::fix
