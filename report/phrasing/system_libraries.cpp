#include "report/phrasing/system_libraries.h"

#include <algorithm>

namespace devtrace::report {
namespace {

constexpr std::string_view kStarts[] = {"libcu",   "libtorch", "libc10",    "libnv",
                                        "libc.so", "libc++",   "libstdc++", "ld-"};

}  // namespace

bool hides_callers(std::string_view path) {
  const std::string_view file = path.substr(path.rfind('/') + 1);  // npos + 1 is 0
  return std::ranges::any_of(kStarts, [&](std::string_view start) { return file.starts_with(start); });
}

}  // namespace devtrace::report
