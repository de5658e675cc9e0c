#include "tests/programs/matrix/launch.h"

#include <cstring>

namespace matrix {

std::string kernel_text() {
  std::string text =
      ".version 8.0\n.target sm_75\n.address_size 64\n"
      ".visible .entry touch(.param .u64 first, .param .align 8 .b8 both[16], .param .align 8 .b8 list[248])\n{\n"
      "  .reg .b64 %rd<4>;\n  .reg .b32 %r<2>;\n";
  const auto read = [&](const std::string& where) {
    text += "  ld.param.u64 %rd1, [" + where + "];\n  ld.global.u32 %r1, [%rd1];\n";
  };
  read("first");
  read("both+8");
  for (int i = 0; i < kTensors; ++i) read("list+" + std::to_string(8 + 8 * i));
  return text + "  ret;\n}\n";
}

Arguments arguments_with(const char* place, void* usual, void* other) {
  Arguments arguments{usual, {7, usual}, {kTensors, {}}};
  for (void*& tensor : arguments.list.tensors) tensor = usual;
  if (std::strcmp(place, "first") == 0) arguments.first = other;
  if (std::strcmp(place, "struct") == 0) arguments.both.inside = other;
  if (std::strcmp(place, "list") == 0) arguments.list.tensors[17] = other;
  return arguments;
}

int run(const Launch& launch, Arguments& arguments) {
  size_t bytes = sizeof arguments;
  void* parameters[] = {&arguments.first, &arguments.both, &arguments.list};
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &arguments, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                   CU_LAUNCH_PARAM_END};
  return launch.run({arguments, parameters, extra});
}

}  // namespace matrix
