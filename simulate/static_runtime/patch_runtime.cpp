// A CUDA runtime inside a loaded object becomes the stand-in runtime.
//
// When: after an object is mapped and before any of its code runs, at the start and in each dlopen; its constructors
// register kernels. No file is changed, and no call reaches NVIDIA's runtime.
//
// At the start this library's constructor is the first of all (-z initfirst). For what is opened later there is the
// function that the loader calls for debuggers when its list has changed (r_brk of <link.h>). It does nothing, and a
// jump at its beginning leads here. Not LD_AUDIT, which is made for this: glibc 2.36 then ends in realloc() when a
// process of many libraries with thread-local storage opens one more. Not a hook of dlopen: it could only come before
// or after.
#include <limits.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
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

// Looks for one in an object whose code has not run yet. Sends its functions to the stand-in of its version:
// as in a file that is linked with `-cudart shared`. What stands in the way is told on stderr. `first`: the program, at
// the beginning of the loader's list; `program`: what the user calls it.
void patch_runtime(const link_map* first, const link_map& listed, const char* program) {
  const elf::Object object = elf::object_of(listed);
  if (is_vendors(object.file()) || is_ours(object)) return;
  const std::string path(&listed == first ? "/proc/self/exe" : object.path);
  const RuntimeCopy copy = find_runtime_copy(path);
  if (copy.state != RuntimeCopy::State::named) return;  // one without names tells itself (simulate/cuda/proc.cpp)
  const char* const shown = &listed == first ? program : listed.l_name;
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

// What was looked at, as far as it is still loaded. Only changed with the loader's lock, and by the constructor.
std::vector<const link_map*>* g_known;
const char* g_program = "";

bool is_known(const link_map* object) {
  for (const link_map* one : *g_known)
    if (one == object) return true;
  return false;
}

// Where one object was closed, the next may have its place in the list: so those that went are forgotten first.
void look() {
  std::vector<const link_map*> loaded;
  const link_map* const first = _r_debug.r_map;
  for (const link_map* one = first; one; one = one->l_next) {
    if (!is_known(one)) patch_runtime(first, *one, g_program);
    loaded.push_back(one);
  }
  *g_known = std::move(loaded);
}

// In the place of the loader's function. Before objects are unmapped it says RT_DELETE, afterwards RT_CONSISTENT.
void list_changed() {
  if (_r_debug.r_state == r_debug::RT_CONSISTENT) look();
}

// Whether the function does nothing: `ret`, with the mark of a jump's target in front where the loader is built so. And
// whether there is room for a jump up to where the next function may begin.
bool does_nothing(const void* function) {
  const uint8_t kMarked[] = {0xf3, 0x0f, 0x1e, 0xfa, 0xc3};
  constexpr uintptr_t kAlignment = 16;
  const bool nothing =
      *static_cast<const uint8_t*>(function) == 0xc3 || !std::memcmp(function, kMarked, sizeof kMarked);
  return nothing && reinterpret_cast<uintptr_t>(function) % kAlignment == 0;
}

[[gnu::constructor]] void start(int, char** arguments, char**) {
  g_known = new std::vector<const link_map*>;
  if (arguments && arguments[0]) g_program = arguments[0];
  look();
  // Another function, or a debugger's breakpoint in it: what is opened later stays as it is.
  const uintptr_t function = _r_debug.r_brk;
  if (!function || !does_nothing(reinterpret_cast<const void*>(function))) return;
  redirect({{function, reinterpret_cast<const void*>(list_changed)}}, Code::in_use);
}

}  // namespace
}  // namespace devtrace::simulate::static_runtime
