#include "tracker/runtime.h"

namespace devtrace {
namespace {
constinit Runtime answers{};
}

void set_runtime(const Runtime& runtime) {
  answers = runtime;
}
const Runtime& runtime() {
  return answers;
}

}  // namespace devtrace
