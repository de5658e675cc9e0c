#include "simulate/settings/wanted_values.h"

#include <cstdio>
#include <cstdlib>

namespace devtrace::simulate {

const WantedValues& wanted_values() {
  static const WantedValues wanted = [] {
    const char* const text = std::getenv("DEVTRACE_SIM_VALUES");
    const std::optional<WantedValues> found = text && *text ? read_values(text) : WantedValues{};
    if (!found)
      std::fprintf(stderr,
                   "devtrace: DEVTRACE_SIM_VALUES=%s: not all, none, small or small:SIZE; as if nothing was said\n",
                   text);
    return found.value_or(WantedValues{});
  }();
  return wanted;
}

}  // namespace devtrace::simulate
