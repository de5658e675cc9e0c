#include "tests/programs/matrix/launch.h"

namespace matrix {

int run(const Launch& launch, Arguments& arguments) {
  size_t bytes = sizeof arguments;
  void* parameters[] = {&arguments.first, &arguments.both, &arguments.list};
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &arguments, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                   CU_LAUNCH_PARAM_END};
  return launch.run({arguments, parameters, extra});
}

}  // namespace matrix
