// A program with split debug information. The same bytes are its .dwo and its .dwp (split-debug-seed puts the sections
// of both into one file).
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>

#include "binary/dwarf/inlined.h"
#include "binary/dwarf/split_files.h"
#include "binary/elf/file.h"

namespace {
struct Folder {
  Folder() {
    char name[] = "/tmp/devtrace-fuzz-XXXXXX";
    path = ::mkdtemp(name);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string path;
};
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Folder folder;
  const std::string program = folder.path + "/program", split = folder.path + "/split.dwo", package = program + ".dwp";
  for (const std::string& path : {program, split, package}) {
    ::unlink(path.c_str());
    if (FILE* file = std::fopen(path.c_str(), "wb")) {
      std::fwrite(data, 1, size, file);
      std::fclose(file);
    }
  }
  size_t length = 0;
  {
    devtrace::dwarf::Module module(program);
    for (uint64_t offset = 0x1000; offset < 0x1040; ++offset) {
      for (const auto& call : module.inlined_at(offset)) length += call.function.size() + call.file.size();
    }
  }
  devtrace::dwarf::find_in_index({reinterpret_cast<const char*>(data), size}, length);
  return 0;
}
