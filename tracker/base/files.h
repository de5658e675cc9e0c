// Files from inside somebody else's process. No stdio, no descriptor kept open, no signal that would kill the program,
// nothing that waits for another without a limit, and system calls of our own.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace devtrace::files {

// Appends `data` to `path` with as few write(2) calls as the kernel allows, creating the file (mode 0666 less umask).
// On a short write the file is cut back to what it was, so that a full disk leaves whole lines. Returns 0 or an errno.
// No link is followed, and nothing but a regular file is written to: devices and descriptors only below /dev and /proc,
// where somebody has named them. No descriptor stays open: the program may close or reuse any descriptor at any time.
int append(const std::string& path, std::string_view data);

// The first `most` bytes of a regular file; nothing where there is none.
std::optional<std::string> read_start(const std::string& path, size_t most);

// Something that can be read without waiting for anybody: no pipe, no terminal, no device.
bool is_regular(const std::string& path);

// write(2) of all of `data`, with SIGPIPE and SIGXFSZ swallowed. A pipe that nobody reads is waited for two seconds,
// once. Returns 0 or an errno.
int write_all(int descriptor, std::string_view data);

// The same to stderr, while descriptor 2 still is that. To be noted before the program begins.
void note_stderr();
void write_stderr(std::string_view text);

}  // namespace devtrace::files
