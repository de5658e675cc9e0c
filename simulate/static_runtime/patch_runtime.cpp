#include "simulate/static_runtime/patch_runtime.h"

#include <limits.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "binary/elf/loaded.h"
#include "simulate/static_runtime/redirect.h"
#include "simulate/static_runtime/runtime_copy.h"

namespace devtrace::simulate::static_runtime {
namespace {

// NVIDIA's own libraries that no stub stands for stay as they are: what is in them is not computed anyway.
constexpr std::string_view kVendors[] = {
    "libcublas",   "libcudnn",    "libcufft",     "libcufile", "libcupti",    "libcurand",
    "libcusolver", "libcusparse", "libnccl",      "libnpp",    "libnvjpeg",   "libnvshmem",
    "nvshmem_",    "libnvrtc",    "libnvJitLink", "libcudss",  "libcutensor", "libnvinfer",
};

// By write(2): this may run before the C library is set up.
[[gnu::format(printf, 1, 2)]] void warn(const char* format, ...) {
  const char* verbose = std::getenv("DEVTRACE_SIM_VERBOSE");
  if (verbose && std::strcmp(verbose, "0") == 0) return;
  char text[PATH_MAX + 512];
  va_list values;
  va_start(values, format);
  const int length = std::vsnprintf(text, sizeof text, format, values);
  va_end(values);
  if (length > 0) dprintf(STDERR_FILENO, "devtrace: %.*s\n", length, text);
}

bool is_vendors(std::string_view file) {
  for (std::string_view name : kVendors)
    if (file.starts_with(name)) return true;
  return false;
}

// A stub, or libdevtrace.so.
bool is_ours(const elf::Object& object) {
  return elf::Loaded(object).find("devtrace_simulation") || object.file() == "libdevtrace.so";
}

// The stand-in for that version, among the objects of the start; null: another version is simulated.
const link_map* stand_in(const link_map* first, const std::string& version) {
  for (const link_map* one = first; one; one = one->l_next) {
    const elf::Object object = elf::object_of(*one);
    if (object.file() == version && elf::Loaded(object).find("devtrace_simulation")) return one;
  }
  return nullptr;
}

// Where a reference to the function from a file that is linked to that runtime leads: to the first preloaded library
// that has it, a tool's or the stand-in itself.
const void* destination(const link_map* first, const link_map* last, const char* name, const char* version) {
  for (const link_map* one = first->l_next; one; one = one->l_next) {
    if (const void* found = elf::Loaded(*one).find(name, version)) return found;
    if (one == last) return nullptr;
  }
  return nullptr;
}

}  // namespace

void patch_runtime(const link_map* first, const link_map& listed, const char* program) {
  const elf::Object object = elf::object_of(listed);
  if (is_vendors(object.file()) || is_ours(object)) return;
  const std::string path(&listed == first ? "/proc/self/exe" : object.path);
  const RuntimeCopy copy = find_runtime_copy(path);
  if (copy.state == RuntimeCopy::State::none || copy.state == RuntimeCopy::State::outside) return;
  const char* const shown = &listed == first ? program : listed.l_name;
  if (copy.state == RuntimeCopy::State::stripped) {
    warn(
        "%s: its CUDA runtime is inside it and has no names, so that it cannot be simulated, and its calls will fail: "
        "link with `-cudart shared`, or do not strip it",
        shown);
    return;
  }
  const std::string version = "libcudart.so." + std::to_string(copy.major);
  const link_map* const runtime = stand_in(first, version);
  if (!runtime) {
    const char* const how = copy.major < 12    ? "link with `-cudart shared`, or build it with CUDA 12 or 13"
                            : copy.major == 12 ? "rehearse with --cuda 12"
                                               : "rehearse with --cuda 13";
    warn("%s: the CUDA runtime inside it is that of CUDA %d%s, another one is simulated, and its calls will fail: %s",
         shown, copy.major, copy.major < 12 ? " or before" : "", how);
    return;
  }
  std::vector<Jump> jumps;
  for (const RuntimeFunction& entry : copy.entries) {
    if (entry.room < kJumpBytes) continue;
    if (const void* to = destination(first, runtime, entry.name.c_str(), version.c_str()))
      jumps.push_back({listed.l_addr + entry.offset, to});
  }
  if (!redirect(jumps)) warn("%s: the CUDA runtime inside it could not be taken over, and its calls will fail", shown);
}

}  // namespace devtrace::simulate::static_runtime
