// A loaded object whose tables are damaged: its symbols, versions and the slots of its imports (GOT), read in this
// process and as another's. The input is a list of changes to a library that is laid out in memory as the loader does
// it.
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

#include "attach/process/remote_object.h"
#include "interpose/linking/imports/import_relocations.h"
#include "process/memory.h"

namespace {

using namespace devtrace;

// What lies behind it cannot be read.
class Image {
 public:
  explicit Image(const char* path) {
    std::ifstream in(path, std::ios::binary);
    const std::vector<char> file((std::istreambuf_iterator<char>(in)), {});
    Elf64_Ehdr header;
    if (file.size() < sizeof header) std::fprintf(stderr, "%s is no library\n", path), std::exit(1);
    std::memcpy(&header, file.data(), sizeof header);
    std::vector<Elf64_Phdr> segments(header.e_phnum);
    std::memcpy(segments.data(), file.data() + header.e_phoff, segments.size() * sizeof(Elf64_Phdr));
    for (const Elf64_Phdr& each : segments) {
      if (each.p_type == PT_DYNAMIC) dynamic_ = each.p_vaddr;
      if (each.p_type != PT_LOAD) continue;
      pristine_.resize(each.p_vaddr + each.p_memsz);
      std::memcpy(pristine_.data() + each.p_vaddr, file.data() + each.p_offset, each.p_filesz);
    }
    pristine_.resize((pristine_.size() + kPage - 1) / kPage * kPage);
    void* const all = ::mmap(nullptr, pristine_.size() + 2 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memory_ = static_cast<char*>(all) + kPage;
    ::mprotect(memory_, pristine_.size(), PROT_READ | PROT_WRITE);
  }

  // Each change: which 32-bit word, and what it becomes.
  void change(const uint8_t* data, size_t size) {
    std::memcpy(memory_, pristine_.data(), pristine_.size());
    constexpr size_t kChange = 6;
    for (; size >= kChange; data += kChange, size -= kChange) {
      uint16_t word;
      std::memcpy(&word, data, sizeof word);
      std::memcpy(memory_ + word * sizeof(uint32_t) % pristine_.size(), data + sizeof word, sizeof(uint32_t));
    }
  }

  uintptr_t start() const { return reinterpret_cast<uintptr_t>(memory_); }
  elf::Object object() const {
    return {"library.so", start(), reinterpret_cast<const Elf64_Dyn*>(memory_ + dynamic_), start(),
            start() + pristine_.size()};
  }

 private:
  static constexpr size_t kPage = 4096;
  std::vector<char> pristine_;
  char* memory_ = nullptr;
  size_t dynamic_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Image image(DEVTRACE_FUZZ_LIBRARY);
  image.change(data, size);
  const elf::Loaded section(image.object());
  size_t length = 0;
  section.for_each([&](const Elf64_Sym&, const char* name) { length += std::strlen(name); });
  for (const char* name : {"imports_call", "imports_call_by_pointer", "none"})
    for (const char* version : {static_cast<const char*>(nullptr), "TEST_1.0"}) section.symbol(name, version);
  section.number_of("TEST_1.0");
  const interpose::ImportRelocations imports(image.object());
  imports.for_each([&](uintptr_t slot, const char* name, size_t symbol) {
    const char* const version = imports.version_of(symbol);
    length += *reinterpret_cast<const uintptr_t*>(slot) + std::strlen(name) + (version ? std::strlen(version) : 0);
  });
  const process::RemoteMemory memory(::getpid());
  attach::RemoteObject(memory, image.start()).symbol("imports_call");
  return 0;
}
