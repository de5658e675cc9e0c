#include "tracker/interface/platform.h"

namespace devtrace {
namespace {
constinit Platform current{};
}

void set_platform(const Platform& answers) {
  current = answers;
}
const Platform& platform() {
  return current;
}

}  // namespace devtrace
