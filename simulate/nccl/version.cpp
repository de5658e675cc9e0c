#include "simulate/nccl/version.h"

#include <link.h>

#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

#include "simulate/nccl/communicator.h"

namespace devtrace::simulate::nccl {
namespace {

// The folder that PyTorch's wheel and NCCL's were unpacked into; empty: PyTorch is not loaded.
int note_folder(dl_phdr_info* object, size_t, void* folder) {
  const char* at = std::strstr(object->dlpi_name, "torch/lib/libtorch_cuda");
  if (!at) return 0;
  *static_cast<std::string*>(folder) = std::string(object->dlpi_name, at);
  return 1;
}

// NCCL's wheel has its header.
int version_of(const std::string& header) {
  std::ifstream file(header);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string define, name;
    int value = 0;
    if (words >> define >> name >> value && define == "#define" && name == "NCCL_VERSION_CODE") return value;
  }
  return 0;
}

}  // namespace

int version() {
  std::string folder;
  dl_iterate_phdr(note_folder, &folder);
  const int found = folder.empty() ? 0 : version_of(folder + "nvidia/nccl/include/nccl.h");
  return found ? found : NCCL_VERSION_CODE;
}

}  // namespace devtrace::simulate::nccl
