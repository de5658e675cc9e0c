#include "simulate/jit/original.h"

#include <dlfcn.h>

#include <string>

#include "binary/elf/loaded.h"

namespace devtrace::simulate::jit {

void* find(std::string_view library, const char* symbol) {
  for (const char* const version : {"13", "12"})
    if (void* const found = elf::find_in_file(std::string(library) + version, symbol)) return found;
  return nullptr;
}

void note_ptx(const void* image, size_t bytes, std::string_view ptx) {
  using Note = void (*)(const void*, size_t, const char*, size_t);
  static const auto note = reinterpret_cast<Note>(dlsym(RTLD_DEFAULT, "devtrace_sim_image_made_of"));
  if (note) note(image, bytes, ptx.data(), ptx.size());
}

}  // namespace devtrace::simulate::jit
