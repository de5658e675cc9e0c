#include "tracker/evidence/origins/native_frames.h"

#include <unistd.h>

#include <cctype>
#include <cstdlib>

#include "report/phrasing/signature.h"
#include "tracker/stacks/native/caller.h"
#include "tracker/stacks/native/modules.h"

namespace devtrace::evidence {
namespace {

// Folders of headers whose inlined and instantiated functions lie in the user's module.
constexpr std::string_view kHeaderFolders[] = {
    "/include/c++/",    "/include/ATen/", "/include/c10/",  "/include/torch/",
    "/include/caffe2/", "/include/crt/",  "/include/cuda",  "/include/thrust/",
    "/include/cub/",    "/include/nv/",   "/include/cccl/", "/include/cooperative_groups/",
    "/include/cublas",  "/include/cudnn", "/include/cufft", "/include/curand",
    "/include/bits/",
};
constexpr std::string_view kHeaderRoots[] = {"/usr/include/", "/usr/lib/"};

// The same by their names, where there is no file.
constexpr std::string_view kNamespaces[] = {
    "std::", "__gnu_cxx::", "__cxxabiv1::", "at::", "c10::", "torch::", "caffe2::", "thrust::", "cub::", "cuda::"};
// What the compiler and the linker make: the start of a program, nvcc's stubs.
constexpr std::string_view kMade[] = {
    "_start", "__libc_start",    "__device_stub__",        "__cudaLaunchKernel", "__wrapper__device_stub",
    "__cuda", "_GLOBAL__sub_I_", "__static_initialization"};

// What a macro of LibTorch's puts into the user's class, under the user's line: TORCH_MODULE's inherited constructor.
constexpr std::string_view kOfMacros[] = {"ModuleHolder"};

bool in_a_header_of_others(std::string_view file) {
  for (const std::string_view root : kHeaderRoots)
    if (file.starts_with(root)) return true;
  for (const std::string_view folder : kHeaderFolders)
    if (file.find(folder) != file.npos) return true;
  return file.find(".cudafe1.") != file.npos;  // nvcc's own text
}

// cudaMalloc<float>, cudaLaunchKernel<void (…)>: CUDA's templates around its C functions.
bool wraps_the_runtime(std::string_view name) {
  return name.size() > 5 && name.starts_with("cuda") && std::isupper(static_cast<unsigned char>(name[4])) &&
         name.find('<') != name.npos;
}

}  // namespace

bool is_project_frame(const stacks::NativeFrame& frame) {
  if (frame.module.empty() || !stacks::may_be_the_users(frame.module)) return false;
  if (in_a_header_of_others(frame.file)) return false;
  const std::string_view name = report::name_in_signature(frame.function);
  for (const std::string_view made : kMade)
    if (name.starts_with(made)) return false;
  const std::string unqualified = report::unqualified_name(frame.function);
  for (const std::string_view inherited : kOfMacros)
    if (unqualified == inherited) return false;
  if (!frame.file.empty()) return true;
  for (const std::string_view space : kNamespaces)
    if (name.starts_with(space)) return false;
  return !wraps_the_runtime(name);
}

std::string source_file(const stacks::NativeFrame& frame) {
  if (frame.file.empty() || frame.file.front() == '/' || frame.file.front() == '<') return frame.file;
  char* directory = ::getcwd(nullptr, 0);
  std::string folder = directory != nullptr ? directory : "";
  std::free(directory);
  const auto in = [&](const std::string& where) {
    const std::string path = where + '/' + frame.file;
    return ::access(path.c_str(), R_OK) == 0 ? path : std::string();
  };
  std::string found = folder.empty() ? std::string() : in(folder);
  for (folder = frame.module; found.empty() && folder.rfind('/') != std::string::npos;) {
    folder.resize(folder.rfind('/'));
    found = in(folder);
  }
  return found.empty() ? frame.file : found;
}

std::string take_called_function(std::vector<stacks::NativeFrame>& frames) {
  if (frames.empty() || !stacks::caller::is_own(frames.front().address)) return {};
  std::string function = frames.front().mangled;
  frames.erase(frames.begin());
  if (!function.starts_with("cu") || function.find('@') != function.npos) return {};
  // Variants for the default stream of each thread, and of a changed interface.
  for (const std::string_view ending : {"_ptsz", "_ptds", "_v2", "_v3"})
    if (function.ends_with(ending)) return function.substr(0, function.size() - ending.size());
  return function;
}

}  // namespace devtrace::evidence
