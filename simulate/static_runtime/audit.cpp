// An auditor of the dynamic linker (LD_AUDIT, rtld-audit(7)): the functions of a CUDA runtime that lies inside the
// program or a library of its are sent to the stand-in runtime, as if the file were linked with `-cudart shared`.
//
// When: after an object is mapped and before any of its code runs, at the start and in each dlopen; a constructor of
// ours would come too late for what is opened later. No file is changed, and no call reaches NVIDIA's runtime. The
// linker keeps an auditor in a name space of its own, with a C library of its own: nothing here is shared with the
// program.
#include <elf.h>
#include <link.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "interpose/linking/elf_symbol.h"
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

elf::Object object_of(const link_map& listed) {
  return {listed.l_name ? listed.l_name : "", listed.l_addr, listed.l_ld};
}

[[gnu::format(printf, 1, 2)]] void say(const char* format, ...) {
  const char* verbose = std::getenv("DEVTRACE_SIM_VERBOSE");
  if (verbose && std::strcmp(verbose, "0") == 0) return;
  char text[1024];
  va_list values;
  va_start(values, format);
  std::vsnprintf(text, sizeof text, format, values);
  va_end(values);
  std::fprintf(stderr, "devtrace: %s\n", text);
}

bool is_vendors(std::string_view file) {
  for (std::string_view name : kVendors)
    if (file.starts_with(name)) return true;
  return false;
}

// A stub, or libdevtrace.so.
bool is_ours(const elf::Object& object) {
  return interpose::elf_symbol(object, "devtrace_simulation") || object.file() == "libdevtrace.so";
}

// The stand-in for that version, among the objects of the start; null: another version is simulated.
const link_map* stand_in(const link_map* first, const std::string& version) {
  for (const link_map* one = first; one; one = one->l_next) {
    const elf::Object object = object_of(*one);
    if (object.file() == version && interpose::elf_symbol(object, "devtrace_simulation")) return one;
  }
  return nullptr;
}

// Where a reference to the function from a file that is linked to that runtime leads: to the first preloaded library
// that has it, a tool's or the stand-in itself.
const void* destination(const link_map* first, const link_map* last, const char* name, const char* version) {
  for (const link_map* one = first->l_next; one; one = one->l_next) {
    if (const void* found = interpose::elf_symbol(object_of(*one), name, version)) return found;
    if (one == last) return nullptr;
  }
  return nullptr;
}

void take_over(const link_map* first, const link_map& listed) {
  const elf::Object object = object_of(listed);
  if (is_vendors(object.file()) || is_ours(object)) return;
  const std::string path(&listed == first ? "/proc/self/exe" : object.path);
  const RuntimeCopy copy = find_runtime_copy(path);
  if (copy.state == RuntimeCopy::State::none || copy.state == RuntimeCopy::State::outside) return;
  const char* const shown = &listed == first ? program_invocation_name : listed.l_name;
  if (copy.state == RuntimeCopy::State::stripped) {
    say("%s: its CUDA runtime is inside it and has no names, so that it cannot be simulated, and its calls will fail: "
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
    say("%s: the CUDA runtime inside it is that of CUDA %d%s, another one is simulated, and its calls will fail: %s",
        shown, copy.major, copy.major < 12 ? " or before" : "", how);
    return;
  }
  std::vector<Jump> jumps;
  for (const Entry& entry : copy.entries) {
    if (entry.room < kJumpBytes) continue;
    if (const void* to = destination(first, runtime, entry.name.c_str(), version.c_str()))
      jumps.push_back({listed.l_addr + entry.offset, to});
  }
  if (!redirect(jumps)) say("%s: the CUDA runtime inside it could not be taken over, and its calls will fail", shown);
}

std::vector<const link_map*> g_new;  // mapped since the list was last complete

}  // namespace
}  // namespace devtrace::simulate::static_runtime

using namespace devtrace::simulate::static_runtime;

#pragma GCC visibility push(default)
extern "C" {

unsigned la_version(unsigned version) {
  return version < LAV_CURRENT ? version : LAV_CURRENT;
}

unsigned la_objopen(link_map* object, Lmid_t space, uintptr_t*) {
  if (space == LM_ID_BASE) g_new.push_back(object);
  return 0;  // nothing of its bindings
}

void la_activity(uintptr_t*, unsigned state) {
  if (state != LA_ACT_CONSISTENT || g_new.empty()) return;
  const link_map* first = g_new.front();
  while (first->l_prev) first = first->l_prev;
  for (const link_map* object : g_new) take_over(first, *object);
  g_new.clear();
}

}  // extern "C"
#pragma GCC visibility pop
