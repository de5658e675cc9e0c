// A CUDA library that a program opens by its path, or by the name without a version, becomes the stand-in.
//
// The loader knows a library by its name alone where another one needs it, so the preloaded stand-ins are found there.
// A path is another matter (cuda-python, CuPy's wheels, ctypes): NVIDIA's own file would come beside the stand-ins, and
// each would know nothing of what the other one made. One of another version of CUDA than the simulated one is that
// version's stand-in, where it was built: both work on the same devices.
#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "binary/elf/loaded.h"
#include "binary/elf/loaded_objects.h"

using Dlopen = void* (*)(const char*, int);
extern "C" {
__attribute__((visibility("hidden"))) Dlopen devtrace_real_dlopen = nullptr;
}

namespace devtrace::simulate {
namespace {

// Of libcublas.so.13: that file itself, a later one of the same version (libcublas.so.13.1), libcublas.so.
bool stands_for(std::string_view stand_in, std::string_view file) {
  constexpr std::string_view kEnd = ".so";
  if (file.starts_with(stand_in)) return file.size() == stand_in.size() || file[stand_in.size()] == '.';
  return file.ends_with(kEnd) && stand_in.starts_with(file) && stand_in[file.size()] == '.';
}

// Names of the stand-ins: those in this library's folder or below, which are loaded right after it and stay. Noted
// before anything else runs, as the loader's list may later change while somebody goes through it.
constinit const char* stand_ins[32] = {};
// Theirs; a view of a name that the loader keeps.
constinit std::string_view folder;

[[gnu::constructor]] void note_stand_ins() {
  size_t count = 0;
  for (const link_map* one = _r_debug.r_map; one && count < std::size(stand_ins); one = one->l_next) {
    const elf::Object object = elf::object_of(*one);
    if (!folder.empty() && object.path.starts_with(folder)) stand_ins[count++] = object.file().data();
    if (object.file() == "static_runtime.so") folder = object.path.substr(0, object.path.rfind('/') + 1);
  }
}

const char* stand_in_for(std::string_view file) {
  for (const char* const each : stand_ins)
    if (each && stands_for(each, file)) return each;
  return nullptr;
}

// Paths of those for the other version.
std::vector<std::string> find_others() {
  const std::string own(folder);
  const std::string other = own + (stand_in_for("libcudart.so.12") ? "" : "cuda12/");
  std::vector<std::string> found;
  std::ifstream list(other + "preload.list");
  for (std::string name; std::getline(list, name);)
    if (name.starts_with("lib") && !stand_in_for(name)) found.push_back(other + name);
  return found;
}

// Of a file that is there: who looks whether the other version is installed must not find more than without us.
const char* other_stand_in_for(const char* path, std::string_view file) {
  static const auto* const others = new std::vector<std::string>(find_others());
  for (const std::string& each : *others)
    if (stands_for(std::string_view(each).substr(each.rfind('/') + 1), file) && !::access(path, R_OK))
      return each.c_str();
  return nullptr;
}

}  // namespace
}  // namespace devtrace::simulate

extern "C" {

// What to open instead.
__attribute__((visibility("hidden"), used)) const char* devtrace_name_to_open(const char* name) {
  using namespace devtrace;
  for (const std::string_view library : {"libc.so.6", "libdl.so.2"})  // before glibc 2.34 it is the latter's
    if (!devtrace_real_dlopen) devtrace_real_dlopen = reinterpret_cast<Dlopen>(elf::find_in_file(library, "dlopen"));
  if (!name) return name;
  const std::string_view path = name, file = path.substr(path.rfind('/') + 1);
  if (!file.starts_with("lib")) return name;
  const char* stand_in = simulate::stand_in_for(file);
  // Only a whole version says which one is wanted.
  if (!stand_in && file.size() < path.size() && !file.ends_with(".so"))
    stand_in = simulate::other_stand_in_for(name, file);
  return stand_in ? stand_in : name;
}

// Where the loader looks for a name depends on who asks: the real function must see the caller's return address, so it
// is jumped to, not called.
__attribute__((visibility("default"))) void* dlopen(const char* file, int mode) noexcept;
#ifdef __x86_64__
__asm__(
    ".pushsection .text\n"
    ".globl dlopen\n"
    ".type dlopen, @function\n"
    "dlopen:\n"
    "  .cfi_startproc\n"
    "  push %rsi\n"
    "  .cfi_adjust_cfa_offset 8\n"
    "  call devtrace_name_to_open\n"
    "  mov %rax, %rdi\n"
    "  pop %rsi\n"
    "  .cfi_adjust_cfa_offset -8\n"
    "  jmp *devtrace_real_dlopen(%rip)\n"
    "  .cfi_endproc\n"
    ".size dlopen, . - dlopen\n"
    ".popsection\n");
#else
__asm__(
    ".pushsection .text\n"
    ".globl dlopen\n"
    ".type dlopen, @function\n"
    "dlopen:\n"
    "  .cfi_startproc\n"
    "  stp x29, x30, [sp, #-32]!\n"
    "  .cfi_def_cfa_offset 32\n"
    "  .cfi_offset x29, -32\n"
    "  .cfi_offset x30, -24\n"
    "  str x1, [sp, #16]\n"
    "  bl devtrace_name_to_open\n"
    "  ldr x1, [sp, #16]\n"
    "  ldp x29, x30, [sp], #32\n"
    "  .cfi_restore x30\n"
    "  .cfi_restore x29\n"
    "  .cfi_def_cfa_offset 0\n"
    "  adrp x16, devtrace_real_dlopen\n"
    "  ldr x16, [x16, :lo12:devtrace_real_dlopen]\n"
    "  br x16\n"
    "  .cfi_endproc\n"
    ".size dlopen, . - dlopen\n"
    ".popsection\n");
#endif
}
