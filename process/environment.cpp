#include "process/environment.h"

#include <unistd.h>

#include <string_view>

namespace devtrace::process {

std::map<std::string, std::string> own_environment() {
  std::map<std::string, std::string> all;
  for (char** each = environ; *each; ++each) {
    const std::string_view entry(*each);
    if (const size_t equals = entry.find('='); equals != entry.npos)
      all.emplace(entry.substr(0, equals), entry.substr(equals + 1));
  }
  return all;
}

}  // namespace devtrace::process
