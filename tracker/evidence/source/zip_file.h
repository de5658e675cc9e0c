// Files inside of zip archives: Python runs programs out of them (zipapp, zipimport).
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace devtrace::evidence {

// The text of "/app.pyz/package/module.py", where /app.pyz is an archive that holds package/module.py uncompressed, as
// Python's zipapp does unless it is told otherwise. Nothing for any other path, for compressed or encrypted files, and
// for files of more than `most` bytes.
std::optional<std::string> zip_member(const std::string& path, size_t most);

}  // namespace devtrace::evidence
