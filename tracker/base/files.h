// Writing from inside somebody else's process: no stdio, no descriptor kept open, no signal that would kill the
// program.
#pragma once

#include <string>
#include <string_view>

namespace devtrace::files {

// Appends `data` to `path` with as few write(2) calls as the kernel allows, creating the file (mode 0666 less umask).
// On a short write the file is cut back to what it was, so that a full disk leaves whole lines. Returns 0 or an errno.
// A SIGXFSZ that the write raises is swallowed. No descriptor stays open: the program may close or reuse any descriptor
// at any time.
int append(const std::string& path, std::string_view data);

// Something that can be read without waiting for anybody: no pipe, no terminal, no device.
bool is_regular(const std::string& path);

// write(2) of all of `data`, with SIGPIPE swallowed. Returns 0 or an errno.
int write_all(int descriptor, std::string_view data);

}  // namespace devtrace::files
