#include "report/base/system_libraries.h"

#include <algorithm>

namespace devtrace::report {
namespace {

struct Library {
  std::string_view start;
  bool hides_callers;
};
constexpr Library kLibraries[] = {
    {"libcu", true},   {"libtorch", true},    {"libc10", true},   {"libnv", true},      {"libc.so", true},
    {"libc++", true},  {"libstdc++", true},   {"ld-", true},      {"libnccl", false},   {"libm.so", false},
    {"libgcc", false}, {"libpthread", false}, {"python3", false}, {"libpython", false}, {"libdevtrace", false},
};

const Library* library_of(std::string_view path) {
  const std::string_view file = path.substr(path.rfind('/') + 1);  // npos + 1 is 0
  const auto library = std::find_if(std::begin(kLibraries), std::end(kLibraries),
                                    [&](const Library& each) { return file.starts_with(each.start); });
  return library == std::end(kLibraries) ? nullptr : library;
}

}  // namespace

bool is_system_library(std::string_view path) {
  return library_of(path);
}

bool hides_callers(std::string_view path) {
  const Library* library = library_of(path);
  return library && library->hides_callers;
}

}  // namespace devtrace::report
