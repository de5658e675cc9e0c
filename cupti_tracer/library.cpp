#include "cupti_tracer/library.h"

#include <dlfcn.h>

#include <string_view>
#include <vector>

#include "binary/elf/loaded_objects.h"

namespace devtrace::cupti_tracer {
namespace {

// The path of the first loaded object whose file name begins with `name`; empty without one.
std::string path_of(std::string_view name) {
  std::string path;
  elf::for_each_object([&](const elf::Object& object) {
    if (!object.file().starts_with(name)) return false;
    path = object.path;
    return true;
  });
  return path;
}

// Where a libcupti can be, the likeliest first. The runtime's own folder is where the CUDA 13 wheels have both; those
// of CUDA 12 have it in a folder of its own, and the toolkit in extras/.
std::vector<std::string> candidates() {
  std::vector<std::string> paths;
  const std::string runtime = path_of("libcudart.so");
  const size_t slash = runtime.rfind('/');
  for (const char* const file : {"libcupti.so.13", "libcupti.so.12", "libcupti.so"}) {
    if (slash != std::string::npos)
      for (const char* const folder : {"/", "/../../cuda_cupti/lib/", "/../extras/CUPTI/lib64/"})
        paths.push_back(runtime.substr(0, slash) + folder + file);
    paths.push_back(file);
  }
  for (const char* const file : {"libcupti.so.13", "libcupti.so.12", "libcupti.so"})
    paths.push_back(std::string("/usr/local/cuda/extras/CUPTI/lib64/") + file);
  return paths;
}

void* open_library(std::string& why) {
  if (const std::string loaded = path_of("libcupti.so"); !loaded.empty())
    if (void* const handle = ::dlopen(loaded.c_str(), RTLD_LAZY | RTLD_NOLOAD)) return handle;
  for (const std::string& path : candidates())
    if (void* const handle = ::dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL)) return handle;
  why = "there is no libcupti.so beside the CUDA runtime, nor where the loader looks";
  return nullptr;
}

}  // namespace

std::string Library::text(CUptiResult result) const {
  const char* text = nullptr;
  if (cuptiGetResultString && cuptiGetResultString(result, &text) == CUPTI_SUCCESS && text) return text;
  return "error " + std::to_string(result);
}

const Library* library(std::string& why) {
  static const Library* opened = nullptr;
  if (opened) return opened;
  void* const handle = open_library(why);
  if (!handle) return nullptr;
  static Library functions;
#define CUPTI_FUNCTION(name) functions.name = reinterpret_cast<decltype(functions.name)>(::dlsym(handle, #name));
  CUPTI_FUNCTIONS(CUPTI_FUNCTION)
#undef CUPTI_FUNCTION
  if (!functions.cuptiSubscribe || !functions.cuptiUnsubscribe || !functions.cuptiEnableCallback ||
      !functions.cuptiGetCallbackName) {
    why = "the libcupti.so found is none: it has no callbacks";
    return nullptr;
  }
  return opened = &functions;
}

}  // namespace devtrace::cupti_tracer
